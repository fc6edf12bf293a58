"""Saves checkpoints on rank 0."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gan.engine.monitors.monitor import Monitor, Report


class Saver(Monitor):
    """A checkpoint every `every` steps and at each stage's end."""

    def __init__(self, save: Callable[[Report], None], every: int) -> None:
        self._save = save
        self._every = every

    def after_step(self, report: Report) -> None:
        if report.step % self._every == 0 and not report.is_last:
            self._save(report)

    def after_stage(self, report: Report) -> None:
        self._save(report)
