"""The run folder: what is in it, whose settings it holds, and whether a run may go on in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import differences, dump, read
from hvd_gan.engine.checkpoint_files import DAMAGED, PARTIAL, checkpoints_in, left_in
from hvd_gan.engine.writing import PARTIAL as PARTIAL_FILE
from hvd_gan.engine.writing import remove, write_whole

# What may change between a run and its continuation: nothing that a step's result depends on.
CHANGEABLE = (
    "checkpoints.",
    "evaluation.",
    "log_every",
    "verify",
    "numerics.",
    "data.path",
    "data.max_unreadable",
)

# What a job may leave that ended before its settings were saved.
BEFORE_SETTINGS = {"lock", "log", "log.txt"}

QUALITY = TypeAdapter(dict[str, dict[str, float]])


@dataclass(frozen=True)
class RunFolder:
    """The paths inside a run's folder. Rank 0 alone writes there."""

    path: Path

    @property
    def settings(self) -> Path:
        """The resolved settings of the run."""
        return self.path / "settings.yaml"

    @property
    def lock(self) -> Path:
        """Held by the job that runs here; says which one that is."""
        return self.path / "lock"

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
    def images(self) -> Path:
        """Which images the run began with, if it reads a folder of them."""
        return self.path / "images"

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

    def has_checkpoints(self) -> bool:
        """Whether there is a state to go on from, if it is whole."""
        return bool(checkpoints_in(self.checkpoints) or left_in(self.checkpoints, DAMAGED))

    def read_quality(self) -> dict[str, dict[str, float]]:
        """The evaluations so far, by stage. Raises ConfigError if the file is damaged."""
        try:
            return QUALITY.validate_json(self.quality.read_bytes()) if self.quality.exists() else {}
        except ValidationError:
            raise ConfigError(
                f"{self.quality}: is damaged; move it away, and it is begun anew"
            ) from None

    def write_quality(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Writes the evaluations of all stages so far. Raises WriteError."""
        write_whole(self.quality, (json.dumps(results, indent=1) + "\n").encode())


def restrict_new_files() -> None:
    """Nothing that this process makes from now on can be written to by others than its user."""
    os.umask(os.umask(0o022) | 0o022)


def make_folder(path: Path, fresh: bool) -> RunFolder:
    """The folder to run in, made if need be; `fresh` takes a new one beside an old one.

    Raises ConfigError where it cannot be made or holds something else.
    """
    try:
        path = _made_anew(path) if fresh else path
        path.mkdir(parents=True, exist_ok=True)
        there = {entry.name for entry in path.iterdir() if entry.suffix != PARTIAL_FILE}
    except OSError as error:
        raise ConfigError(f"--run {path}: cannot make the folder: {error.strerror}") from None
    folder = RunFolder(path)
    of_a_run = {folder.settings.name, folder.checkpoints.name}
    if there - BEFORE_SETTINGS and not there & of_a_run:
        raise ConfigError(
            f"--run {path}: the folder holds something else than a run; name an empty or new one"
        )
    return folder


def settings_to_go_on_with(folder: RunFolder, settings: Settings, has_begun: bool) -> Settings:
    """The settings that a run goes on with: what was measured when it began is kept.

    has_begun: whether there is a state to go on from; without one nothing depends on the settings
    of an earlier try. Raises ConfigError where a setting differs on which the run's results depend.
    """
    return _continued(folder, settings) if has_begun else settings


def remove_left_overs(folder: RunFolder) -> None:
    """Removes what a killed job was writing. For the job that holds the folder's lock."""
    for left_over in (
        *left_in(folder.checkpoints, PARTIAL),
        *folder.path.glob(f"*{PARTIAL_FILE}"),
        *folder.samples.glob(f"*{PARTIAL_FILE}"),
    ):
        remove(left_over)


def save_settings(folder: RunFolder, settings: Settings) -> None:
    """Writes the resolved settings. Raises WriteError."""
    write_whole(folder.settings, dump(settings).encode())


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


def _made_anew(path: Path) -> Path:
    """A folder that was not there before: two jobs that start at one moment get one each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    candidate, number = path, 1
    while True:
        try:
            candidate.mkdir()
        except FileExistsError:
            number += 1
            candidate = path.with_name(f"{path.name}-{number}")
        else:
            return candidate
