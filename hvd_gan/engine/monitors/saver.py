"""Saves checkpoints on rank 0."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gan.engine.monitors.monitor import Monitor, Report


class Saver(Monitor):
    """A checkpoint every `every` steps, at each stage's end, and where the run stops early."""

    def __init__(self, save: Callable[[Report], None], every: int) -> None:
        self._save = save
        self._every = every

    def after_step(self, report: Report) -> None:
        due = report.step % self._every == 0 and not report.is_last
        # Who asks to stop may not wait for the evaluation at a stage's end; but that a plateau ends
        # the stage is only counted after it.
        if due or (report.stop and not report.plateau):
            self._save(report)

    def after_stage(self, report: Report) -> None:
        self._save(report)
