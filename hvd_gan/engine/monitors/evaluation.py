"""Measures the model on held-out data at each stage's end, spread over all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hvd_gan.cluster.world import World
from hvd_gan.config_base import ConfigError
from hvd_gan.engine.graph import Arrays, Quality
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.monitors.monitor import Monitor, Report

Results = dict[str, float]


def evaluate(
    inference: Inference, quality: Quality, batches: Iterable[Arrays], world: World
) -> Results:
    """The summary over all ranks' batches, on every rank. A collective."""

    def measure() -> list[dict[str, float]]:
        rows: list[dict[str, float]] = []
        for batch in batches:
            rows += quality.measure(batch, inference.run(inference.gan.outputs, batch))
            world.beat()
        return rows

    # Data that cannot be read on one rank is told by all; what a model's own code raises is no
    # mistake of the request, and ends the job with its traceback.
    everywhere = world.gather(world.on_all(measure, (ConfigError, OSError)))
    return quality.summarize([row for rows in everywhere for row in rows])


class Evaluation(Monitor):
    """Evaluates after each stage. Runs on every rank: stages end at the same step everywhere."""

    def __init__(
        self,
        measure: Callable[[], Results],
        announce: Callable[[Report, Results], None],
    ) -> None:
        self._measure = measure
        self._announce = announce

    def after_stage(self, report: Report) -> None:
        self._announce(report, self._measure())
