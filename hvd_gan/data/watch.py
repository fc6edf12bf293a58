"""Watches for unreadable images, the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.config import DataSettings
from hvd_gan.data.pipeline import Batches
from hvd_gan.engine.monitors.monitor import Monitor, Report

EVERY_STEPS = 100


class DataWatch(Monitor):
    """Names each unreadable image once, and ends the run when they are more than the set share.

    Runs on every rank: each meets other images, and all must decide alike.
    """

    def __init__(
        self,
        batches: Batches,
        images: int,
        settings: DataSettings,
        world: World,
        log: Callable[[str], None],
    ) -> None:
        self._batches = batches
        self._images = images
        self._settings = settings
        self._world = world
        self._log = log
        self._known: dict[str, str] = {}

    def after_step(self, report: Report) -> None:
        # Every rank reaches this gather: it depends on the step alone.
        if report.step % EVERY_STEPS == 0:
            self._look()

    def after_stage(self, report: Report) -> None:
        self._look()

    def _look(self) -> None:
        found: dict[str, str] = {}
        for reasons in self._world.gather(self._batches.skipped().reasons):
            found.update(reasons)
        for name in sorted(found.keys() - self._known.keys()):
            self._log(f"skipped an unreadable image, {len(found)} so far: {name}: {found[name]}")
        self._known = found
        if len(found) > self._settings.max_unreadable * self._images:
            name, reason = next(iter(sorted(found.items())))
            raise AgreedError(
                f"data.max_unreadable: {len(found)} of {self._images} images cannot be read, more "
                f"than the allowed share of {self._settings.max_unreadable:g}; the first is "
                f"{name}: {reason}"
            )
