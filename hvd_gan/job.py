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
from hvd_gan.screen import Screen


@dataclass(frozen=True)
class Request:
    """What the command line asked for, and whether the job is asked to stop early."""

    preset: str | None
    files: tuple[Path, ...]
    overrides: tuple[str, ...]
    run: Path
    fresh: bool
    stop: StopRequest


@dataclass(frozen=True)
class Job:
    """What is known before a graph is built, the same on all ranks but for the world."""

    world: World
    screen: Screen
    settings: Settings
    layer: Layer
    folder: RunFolder
    images: Source
    held_out: Source
