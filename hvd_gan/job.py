"""A training job: what was asked for, and what is known of it before a graph is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hvd_gan.cluster.stopping import StopRequest
from hvd_gan.cluster.world import World
from hvd_gan.config import Settings
from hvd_gan.config_files import Layer
from hvd_gan.data.source import Source
from hvd_gan.run_folder import RunFolder
from hvd_gan.run_lock import RunLock
from hvd_gan.screen import Screen


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    stop: whether this rank is asked to stop early. keep_going: whether training goes on when rank 0
    cannot write.
    """

    preset: str | None
    files: tuple[Path, ...]
    overrides: tuple[str, ...]
    run: Path
    fresh: bool
    stop: StopRequest
    keep_going: bool = False


@dataclass(frozen=True)
class Job:
    """What is known before a graph is built, the same on all ranks but for the world.

    lock: of the run's folder, held by rank 0 for as long as the job lives.
    """

    world: World
    screen: Screen
    settings: Settings
    layer: Layer
    folder: RunFolder
    lock: RunLock
    keep_going: bool
    images: Source
    held_out: Source
