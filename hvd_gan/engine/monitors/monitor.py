"""The moments at which something may happen around training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hvd_gan.engine.stages import Visit


@dataclass(frozen=True)
class Report:
    """One finished step. `values` are equal on all ranks; `seconds` are this rank's.

    skipped: whether its values were not finite and it was undone; it then has none.
    visit_step, step: steps of the visit and of the run, this one included.
    drawn: the samples that all ranks have drawn, in steps: `step`, and what rollbacks left behind.
    plateau: whether the visit ends here though steps are left.
    stop: whether the run stops after this step, as a rank asked for.
    """

    visit: Visit
    visit_step: int
    step: int
    drawn: int
    values: Mapping[str, float]
    seconds: float
    plateau: bool = False
    stop: bool = False
    skipped: bool = False

    @property
    def is_last(self) -> bool:
        """Whether this was the visit's last step."""
        return self.plateau or self.visit_step == self.visit.stage.steps


class Monitor:
    """Does nothing at any moment; a monitor overrides those that it needs.

    A monitor that makes collective calls runs on every rank. One that writes runs on rank 0 and
    makes none.
    """

    def before_stage(self, visit: Visit, done: int) -> None:
        """Before a visit's first step, or the first after `done` steps when resuming."""

    def after_step(self, report: Report) -> None:
        """After every step."""

    def after_stage(self, report: Report) -> None:
        """After a visit's last step, with that step's report."""

    def rolled_back(self, step: int) -> None:
        """After the run has gone back to a step, before `before_stage` of what it goes on with."""

    def close(self) -> None:
        """When training has ended, by an error too. Makes no collective call."""
