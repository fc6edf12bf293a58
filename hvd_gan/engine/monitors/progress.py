"""Shows progress on rank 0: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.throughput import Interval
from hvd_gan.engine.stages import Visit

REFRESH_SECONDS = 0.5
LINE_SECONDS = 10.0


class Bar(Monitor):
    """A bar for each stage; a finished one stays on the screen."""

    def __init__(self, console: Console, batch: int) -> None:
        self._console = console
        self._interval = Interval(batch)
        self._last = 0.0
        self._bar = Progress(console=console)

    def before_stage(self, visit: Visit, done: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TextColumn("{task.fields[losses]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            expand=True,
        )
        self._task = self._bar.add_task(
            visit.label, total=visit.stage.steps, completed=done, speed="", losses=""
        )
        self._bar.start()

    def after_step(self, report: Report) -> None:
        self._interval.add(report)
        now = time.monotonic()
        if now - self._last >= REFRESH_SECONDS or report.is_last:
            self._last = now
            values = self._interval.take()
            self._bar.update(
                self._task,
                completed=report.visit_step,
                speed=f"{values['images_per_second']:.0f} img/s",
                losses=losses(values),
            )

    def after_stage(self, report: Report) -> None:
        # Stopped between stages, so that what is printed then does not tear the bar.
        self._bar.stop()

    def rolled_back(self, step: int) -> None:
        self._bar.stop()
        self._interval.forget()

    def close(self) -> None:
        # Else an error would stand above the bar, and the cursor stay hidden.
        self._bar.stop()


class Lines(Monitor):
    """A line every ten seconds and at each stage's end, for logs and launchers' pipes."""

    def __init__(self, console: Console, batch: int) -> None:
        self._console = console
        self._interval = Interval(batch)
        self._last = time.monotonic()
        self._started = (0.0, 0)

    def before_stage(self, visit: Visit, done: int) -> None:
        self._started = (time.monotonic(), done)

    def rolled_back(self, step: int) -> None:
        self._interval.forget()

    def after_step(self, report: Report) -> None:
        self._interval.add(report)
        now = time.monotonic()
        total = report.visit.stage.steps
        if now - self._last < LINE_SECONDS and not report.is_last:
            return
        self._last = now
        values = self._interval.take()
        since, done = self._started
        left = (now - since) / (report.visit_step - done) * (total - report.visit_step)
        self._console.print(
            f"{report.visit.label} {report.visit_step}/{total}  "
            f"{values['images_per_second']:.0f} img/s  {losses(values)}"
            + (f"  {clock(now - since)}" if report.is_last else f"  {clock(left)} left")
            + ("  (plateau)" if report.plateau else ""),
            soft_wrap=True,
        )


def losses(values: dict[str, float]) -> str:
    """The losses among some values, short."""
    named = {name.removeprefix("loss/"): v for name, v in values.items() if name[:5] == "loss/"}
    return " ".join(f"{name} {value:.4g}" for name, value in named.items())


def clock(seconds: float) -> str:
    """A duration as people read it: 1:02:03, or 2:03 under an hour."""
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
