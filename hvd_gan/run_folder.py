"""The run folder: what is in it, whose settings it holds, and whether a run may go on in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import differences, dump, read
from hvd_gan.engine.checkpoints import checkpoints_in

# What may change between a run and its continuation: nothing that a step's result depends on.
CHANGEABLE = (
    "checkpoints.",
    "evaluation.",
    "log_every",
    "verify",
    "data.path",
    "data.max_unreadable",
)


@dataclass(frozen=True)
class RunFolder:
    """The paths inside a run's folder. Rank 0 alone writes there."""

    path: Path

    @property
    def settings(self) -> Path:
        """The resolved settings of the run."""
        return self.path / "settings.yaml"

    @property
    def log(self) -> Path:
        """What was said on the screen, with times."""
        return self.path / "log.txt"

    @property
    def last_words(self) -> Path:
        """Tracebacks of failed jobs, a file a rank."""
        return self.path / "log"

    @property
    def metrics(self) -> Path:
        """A line of JSON every few steps."""
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> Path:
        """TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def samples(self) -> Path:
        """Pictures of held-out images."""
        return self.path / "samples"

    @property
    def checkpoints(self) -> Path:
        """One folder a checkpoint."""
        return self.path / "checkpoints"

    @property
    def quality(self) -> Path:
        """The evaluation after each stage."""
        return self.path / "evaluation.json"

    def read_quality(self) -> dict[str, dict[str, float]]:
        """The evaluations so far, by stage."""
        return json.loads(self.quality.read_text()) if self.quality.exists() else {}

    def write_quality(self, stage: str, results: Mapping[str, float]) -> None:
        """Adds a stage's evaluation."""
        everything = {**self.read_quality(), stage: dict(results)}
        _write_whole(self.quality, json.dumps(everything, indent=1) + "\n")


def open_run(path: Path, settings: Settings, fresh: bool) -> tuple[RunFolder, Settings]:
    """The folder to run in, made if need be, and the settings that the run goes on with.

    An existing run is continued; `fresh` takes a new folder beside it and deletes nothing.
    Raises ConfigError where a setting differs on which the run's results depend.
    """
    if fresh:
        path = _unused(path)
    folder = RunFolder(path)
    if checkpoints_in(folder.checkpoints):
        settings = _continued(folder, settings)
    # Without a checkpoint nothing depends on the settings of an earlier try.
    elif not folder.settings.exists() and path.is_dir() and any(path.iterdir()):
        raise ConfigError(
            f"--run {path}: the folder holds something else than a run; name an empty or new one"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--run {path}: cannot make the folder: {error.strerror}") from None
    return folder, settings


def save_settings(folder: RunFolder, settings: Settings) -> None:
    """Writes the resolved settings."""
    _write_whole(folder.settings, dump(settings))


def load_settings(folder: RunFolder) -> Settings:
    """The settings of a run. Raises ConfigError if they are missing or damaged."""
    return read(folder.settings).validate(Settings)


def _continued(folder: RunFolder, settings: Settings) -> Settings:
    old = load_settings(folder)
    if settings.data.mean_color is None:
        # Measured when the run began; the images have not changed.
        data = settings.data.model_copy(update={"mean_color": old.data.mean_color})
        settings = settings.model_copy(update={"data": data})
    changed = {
        key: values
        for key, values in differences(old, settings).items()
        if not key.startswith(CHANGEABLE) and not _is_steps(key)
    }
    if changed:
        listed = "\n".join(f"  {key}: {old} -> {new}" for key, (old, new) in changed.items())
        raise ConfigError(
            f"--run {folder.path}: cannot be resumed, since these settings have changed; give "
            f"them their old values, name another folder, or start over with --fresh\n{listed}"
        )
    return settings


def _is_steps(key: str) -> bool:
    """A stage's steps may change; whether they are trained already is for the counters to say."""
    steps_or_repeat = r"stages\.[^.]+(\.stages\.[^.]+)?\.steps|stages\.[^.]+\.repeat"
    return re.fullmatch(steps_or_repeat, key) is not None


def _unused(path: Path) -> Path:
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all, whenever the job may be killed."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
