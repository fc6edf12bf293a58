"""Verifies the ledger: what changed over a stage is what it said, on every rank alike."""

from __future__ import annotations

import tensorflow as tf

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.engine.fingerprints import fingerprints
from hvd_gan.engine.ledger import State
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.program import Program
from hvd_gan.engine.stages import Visit

STILL = (State.FROZEN, State.HELD, State.UNREACHED)


class Verify(Monitor):
    """Fingerprints every variable around each stage. Runs on every rank: it compares them."""

    def __init__(self, program: Program, session: tf.compat.v1.Session, world: World) -> None:
        self._program = program
        self._session = session
        self._world = world
        self._before: dict[str, str] = {}

    def before_stage(self, visit: Visit, done: int) -> None:
        self._before = self._fingerprints()

    def after_stage(self, report: Report) -> None:
        after = self._fingerprints()
        moved = {name for name in after if after[name] != self._before[name]}
        findings = [
            f"{entry.variable.op.name} has changed, which the ledger calls {entry.state.value}"
            for entry in self._program.ledger.of_stage(report.visit.stage.name)
            if entry.state in STILL and entry.variable.op.name in moved
        ]
        # Every rank reaches this gather: after_stage comes at the same step everywhere.
        for rank, theirs in enumerate(self._world.gather(after)):
            findings += [
                f"{name} differs between rank {rank} and this one"
                for name in after
                if theirs[name] != after[name]
            ]
        if self._world.agree(bool(findings)):
            raise AgreedError(
                f"verify: after stage {report.visit.label}: "
                + (findings[0] if findings else "another rank found a difference")
                + (f" (and {len(findings) - 1} more)" if len(findings) > 1 else "")
            )

    def _fingerprints(self) -> dict[str, str]:
        return fingerprints(self._program.read(self._session))
