"""Says that this rank has got on, and where it is."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.stages import Visit


class Heartbeat(Monitor):
    """Tells `beat` at all three moments. Runs on every rank and makes no collective call."""

    def __init__(self, beat: Callable[[str], None]) -> None:
        self._beat = beat

    def before_stage(self, visit: Visit, done: int) -> None:
        self._beat(f"step {done + 1} of stage {visit.label}")

    def after_step(self, report: Report) -> None:
        self._beat(f"step {report.visit_step + 1} of stage {report.visit.label}")

    def after_stage(self, report: Report) -> None:
        self._beat(f"the end of stage {report.visit.label}")
