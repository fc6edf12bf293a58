"""Keeps the run's state in memory, for a job that goes on without the ranks that it loses."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gan.engine.monitors.monitor import Monitor, Report


class Commit(Monitor):
    """Commits every `every` steps, and wherever rank 0 saves a checkpoint: it is not made twice.

    Runs on every rank: `commit` makes a collective call.
    """

    def __init__(self, commit: Callable[[], None], every: int, saved_every: int) -> None:
        self._commit = commit
        self._every = every
        self._saved_every = saved_every

    def after_step(self, report: Report) -> None:
        if report.is_last:
            # What belongs to the stage's end is still to be done, and is by whoever goes on.
            return
        if report.step % self._every == 0 or report.step % self._saved_every == 0:
            self._commit()

    def after_stage(self, report: Report) -> None:
        self._commit()
