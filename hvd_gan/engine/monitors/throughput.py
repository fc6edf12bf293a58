"""Means over the steps since the last look, for whoever reports only now and then."""

from __future__ import annotations

from hvd_gan.engine.monitors.monitor import Report


class Interval:
    """Collects reports; `take` gives their means and the images/s over all ranks, and restarts.

    Ranks step together, so one rank's time for a step is everyone's.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._reports: list[Report] = []

    def add(self, report: Report) -> None:
        """Takes one more step into account."""
        self._reports.append(report)

    def forget(self) -> None:
        """Restarts without looking."""
        self._reports = []

    def take(self) -> dict[str, float]:
        """The mean of each value over the steps that have it, and `images_per_second`.

        `skipped` is how many of them were skipped, if any was.
        Needs at least one step.
        """
        reports, self._reports = self._reports, []
        values: dict[str, list[float]] = {}
        for report in reports:
            for name, value in report.values.items():
                values.setdefault(name, []).append(value)
        means = {name: sum(found) / len(found) for name, found in values.items()}
        seconds = sum(report.seconds for report in reports)
        skipped = sum(report.skipped for report in reports)
        return {
            **means,
            **({"skipped": skipped} if skipped else {}),
            "images_per_second": self._batch * len(reports) / seconds,
        }
