"""Watches for unreadable images, the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.survey import check_share
from hvd_gan.engine.monitors.monitor import Monitor, Report

EVERY_STEPS = 100
# A screen shows that many of those that are found at once; the log has them all.
SHOWN = 3


class Speaker(Protocol):
    """Tells a person something."""

    def say(self, line: str) -> None:
        """On the screen and in the log."""

    def log(self, line: str) -> None:
        """In the log."""


class Skips:
    """Names each unreadable image of a source once, and ends the run when they are too many.

    Stands on every rank: each meets other images, and all must decide alike.
    """

    def __init__(
        self, images: int, settings: DataSettings, world: World, speaker: Speaker, kind: str
    ) -> None:
        """images: how many the source has. kind: what they are called in messages."""
        self._images = images
        self._settings = settings
        self._world = world
        self._speaker = speaker
        self._kind = kind
        self._known: set[str] = set()

    def share(self, mine: dict[str, str]) -> None:
        """Puts the ranks' findings together: reasons by name. A collective: every rank calls it.

        Raises AgreedError, on all ranks, when they are more than the set share.
        """
        found: dict[str, str] = {}
        for reasons in self._world.gather(mine):
            found = {**reasons, **found}
        self._tell(found)
        self._known |= found.keys()
        try:
            check_share(found, self._images, self._settings, self._kind)
        except ConfigError as error:
            raise AgreedError(str(error)) from None

    def _tell(self, found: dict[str, str]) -> None:
        new = sorted(found.keys() - self._known)
        for place, name in enumerate(new):
            tell = self._speaker.say if place < SHOWN else self._speaker.log
            tell(f"skipped an unreadable {self._kind}, {len(found)} so far: {name}: {found[name]}")
        if len(new) > SHOWN:
            self._speaker.say(f"... and {len(new) - SHOWN} more; log.txt names them all")


class DataWatch(Monitor):
    """Looks for what was skipped, every EVERY_STEPS steps and after each stage."""

    def __init__(self, skips: Skips, skipped: Callable[[int], dict[str, str]], batch: int) -> None:
        """skipped: this rank's findings below a position. batch: images a step, over all ranks."""
        self._skips = skips
        self._skipped = skipped
        self._batch = batch

    def after_step(self, report: Report) -> None:
        # Every rank reaches this gather: it depends on the step alone.
        if report.step % EVERY_STEPS == 0:
            self._look(report)

    def after_stage(self, report: Report) -> None:
        # And this one: stages end at the same step everywhere.
        self._look(report)

    def _look(self, report: Report) -> None:
        self._skips.share(self._skipped(report.drawn * self._batch))
