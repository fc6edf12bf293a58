"""Watches that ranks do not drift apart: all variables are the same everywhere, bit by bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tensorflow as tf

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.engine.checksums import checksum
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.program import Program

NAMED = 3


class Drift(Monitor):
    """Compares checksums of every global variable over ranks. Runs on every rank.

    Every `every` steps; at each stage's end and every `saved_every` steps too, so that it comes
    before each checkpoint if it stands before the saver.
    """

    def __init__(
        self,
        program: Program,
        session: tf.compat.v1.Session,
        world: World,
        every: int,
        saved_every: int,
    ) -> None:
        self._names = [variable.op.name for variable in program.variables]
        with program.graph.as_default(), tf.name_scope("drift"):
            sums = tf.stack([checksum(v.read_value()) for v in program.variables])
        self._sums = session.make_callable(sums)
        self._world = world
        self._every = every
        self._saved_every = saved_every

    def after_step(self, report: Report) -> None:
        due = not report.step % self._every or not report.step % self._saved_every
        if due or report.is_last or report.stop:
            self.check(report.step)

    def check(self, step: int) -> None:
        """Raises AgreedError on all ranks where a variable differs between any. A collective."""
        # Every rank reaches this gather: whether it comes depends on the step alone.
        everywhere = self._world.gather(self._sums().tobytes())
        if len(set(everywhere)) == 1:
            return
        ranks = [memoryview(sums).cast("q") for sums in everywhere]
        apart = [len(set(sums)) > 1 for sums in zip(*ranks, strict=True)]
        names = [name for name, differs in zip(self._names, apart, strict=True) if differs]
        first = apart.index(True)
        raise AgreedError(
            f"drift: after step {step} {_listed(names)} on {self._who([r[first] for r in ranks])}. "
            "Training has stopped; checkpoints are compared before they are written, so the same "
            "command goes on from the last one. "
            "Should it come again: a model must not depend on its rank or host (random numbers "
            "that do not come from the batch's noise_seed, clocks, files); if it always is one "
            "host, suspect its hardware. numerics.drift_every=0 lets ranks differ"
        )

    def _who(self, sums: Sequence[int]) -> str:
        """Who differs from whom in a variable, by its checksums in the order of ranks."""
        counts = Counter(sums).most_common()
        places = [f"rank {rank} (host {self._world.members[rank]})" for rank in range(len(sums))]
        if len(counts) == len(sums) or counts[0][1] == counts[1][1]:
            groups = [
                " and ".join(places[rank] for rank, other in enumerate(sums) if other == one)
                for one, _ in counts
            ]
            return " as on ".join(groups) if len(groups) == 2 else ", ".join(groups)
        odd = [places[rank] for rank, one in enumerate(sums) if one != counts[0][0]]
        return f"{', '.join(odd)} as on the {counts[0][1]} other ranks"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{shown}{more} {'are' if len(names) > 1 else 'is'} not the same"
