"""What happens when a step's losses or gradients are not finite: stop, skip the step, or go back.

All that is judged is a mean over ranks or follows from one: a NaN or an infinity of one rank is in
the sum that every rank gets. So all of them find the same at the same step, and take the same
decision, without asking each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.config import Settings
from hvd_gan.engine.program import Program
from hvd_gan.engine.resuming import progress


@dataclass(frozen=True)
class Finding:
    """A step with values that are not finite, the same on all ranks."""

    stage: str
    step: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"step {self.step}, stage {self.stage}: {', '.join(self.wrong)}"


def not_finite(values: Mapping[str, float]) -> tuple[str, ...]:
    """What to say of the values that are not finite: `loss/completion is nan`."""
    return tuple(f"{name} is {value}" for name, value in values.items() if not math.isfinite(value))


class RollBackError(Exception):
    """Training stands at an earlier step again. Raised on all ranks alike."""

    def __init__(self, step: int) -> None:
        super().__init__(f"rolled back to step {step}")
        self.step = step


class Policy(Protocol):
    """Told of every step by the trainer, on every rank."""

    def passed(self, step: int) -> None:
        """A step's values are finite."""

    def failed(self, finding: Finding) -> None:
        """They are not. Undoes the step and returns, or raises AgreedError or RollBackError."""


class Stop:
    """Ends the job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def passed(self, step: int) -> None:
        """Nothing to do."""

    def failed(self, finding: Finding) -> None:
        raise AgreedError(
            f"{finding}; training has stopped and the last checkpoint stands. "
            f"{_cure(finding, self._settings)}"
        )


class Skip:
    """Undoes the step on every variable but the counters, bit by bit, and lets training go on.

    Each rank keeps a copy of its variables as they were after the last finite step. The copies are
    local variables, neither saved nor broadcast. TensorFlow lets them share memory with what has
    not changed since, so that what a stage holds frozen costs nothing.
    """

    def __init__(
        self,
        program: Program,
        session: tf.compat.v1.Session,
        settings: Settings,
        say: Callable[[str], None],
    ) -> None:
        """Keeps the variables as they are now."""
        counters = {counter.op.name for counter in program.counters.all}
        kept = [v for v in program.variables if v.op.name not in counters]
        with program.graph.as_default():
            copies = [_like(variable) for variable in kept]
            self._keep = session.make_callable(_assign(copies, kept))
            self._put_back = session.make_callable(_assign(kept, copies))
        self._settings = settings
        self._say = say
        self._in_a_row = 0
        self._keep()

    def passed(self, step: int) -> None:
        self._in_a_row = 0
        self._keep()

    def failed(self, finding: Finding) -> None:
        self._in_a_row += 1
        most = self._settings.numerics.at_most
        if self._in_a_row > most:
            raise AgreedError(
                f"{finding}; so it was in the {most} steps before, which were skipped, and "
                f"numerics.at_most is {most}: training has stopped and the last checkpoint stands. "
                f"{_cure(finding, self._settings)}"
            )
        self._put_back()
        self._say(f"{finding}: this step is skipped ({self._in_a_row} in a row, {most} at most)")


class RollBack:
    """Goes back to a checkpoint, and on with samples that have not been drawn yet.

    restore: reads a checkpoint into rank 0's session and returns its name; may raise ValueError or
        OSError.
    """

    def __init__(
        self,
        program: Program,
        session: tf.compat.v1.Session,
        settings: Settings,
        world: World,
        restore: Callable[[], str],
        say: Callable[[str], None],
    ) -> None:
        self._program = program
        self._session = session
        self._settings = settings
        self._world = world
        self._restore = restore
        self._say = say
        self._times = 0
        self._failed_at = 0
        with program.graph.as_default():
            self._moved_on = tf.compat.v1.placeholder(tf.int64, (), "moved_on")
            self._move_on = program.counters.moved_on.assign(self._moved_on)

    def passed(self, step: int) -> None:
        if step >= self._failed_at:
            self._times = 0

    def failed(self, finding: Finding) -> None:
        self._times += 1
        self._failed_at = max(self._failed_at, finding.step)
        most = self._settings.numerics.at_most
        if self._times > most:
            raise AgreedError(
                f"{finding}; {most} rollbacks have not led past step {self._failed_at}, and "
                f"numerics.at_most is {most}: training has stopped and the last checkpoint stands. "
                f"{_cure(finding, self._settings)}"
            )
        self._say(f"{finding}: rolling back ({self._times} in a row, {most} at most)")
        drawn = progress(self._program, self._session)
        # Every rank reaches both collectives: all found the same.
        name = self._world.on_root(self._restore)
        self._session.run(self._program.broadcast)
        step = progress(self._program, self._session).run
        # The samples drawn so far stay behind, those of the step that failed among them.
        ahead = drawn.run + drawn.moved_on - step
        self._session.run(self._move_on.op, {self._moved_on: ahead})
        self._say(f"rolled back to {name}, on with samples that have not been drawn yet")
        raise RollBackError(step)


def make_policy(
    program: Program,
    session: tf.compat.v1.Session,
    settings: Settings,
    world: World,
    restore: Callable[[], str],
    say: Callable[[str], None],
) -> Policy:
    """The policy of the settings. Made on every rank, once its variables have their values."""
    if settings.numerics.not_finite == "skip":
        return Skip(program, session, settings, say)
    if settings.numerics.not_finite == "rollback":
        return RollBack(program, session, settings, world, restore, say)
    return Stop(settings)


def _cure(finding: Finding, settings: Settings) -> str:
    """What to do about it. A gradient may have become so on the wire."""
    policy = settings.numerics.not_finite
    others = " or =".join(name for name in ("skip", "rollback") if name != policy)
    cure = (
        "Lower the learning rate or set the optimizer's clip_norm, and start over with --fresh; or "
        f"go on from the checkpoint by the same command with numerics.not_finite={others}"
    )
    if not any(wrong.startswith("gradient_norm/") for wrong in finding.wrong):
        return cure
    if settings.compression == "fp16":
        return (
            "With compression=fp16, a gradient is infinite that exceeds 65504 when multiplied by "
            f"loss_scale ({settings.loss_scale:g}) and summed over ranks: take a lower loss_scale "
            f"or compression=none. {cure}"
        )
    if settings.loss_scale > 1:
        return f"Losses are multiplied by loss_scale ({settings.loss_scale:g}): lower it. {cure}"
    return cure


def _like(variable: tf.Variable) -> tf.Variable:
    """A local variable of the same kind: a copy of a reference variable's tensor in a resource
    variable would be its memory, and change with it."""
    resource = hasattr(variable, "handle")
    return tf.compat.v1.get_variable(
        f"hvd_gan/kept/{variable.op.name}",
        variable.shape,
        variable.dtype.base_dtype,
        initializer=tf.compat.v1.zeros_initializer(),
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        use_resource=resource,
    )


def _assign(targets: list[tf.Variable], sources: list[tf.Variable]) -> tf.Operation:
    return tf.group(
        *(
            tf.compat.v1.assign(target, source.read_value())
            for target, source in zip(targets, sources, strict=True)
        )
    )
