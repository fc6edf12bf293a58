"""Checkpoints as files: which there are, and which can be trusted. Needs no TensorFlow.

    step-00001000/      a finished one
    partial-00002000/   one that is being written or removed, or that a killed job left
    damaged-00001500/   a finished one that was found damaged and set aside

A finished one holds TensorFlow's files, `state.json`, and `SHA256SUMS` over both, which is written
last: `cd step-00001000 && sha256sum -c SHA256SUMS` verifies it too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from hvd_gan.config_base import ConfigError, Strict
from hvd_gan.engine.writing import sync, sync_folder

SUMS = "SHA256SUMS"
STATE = "state.json"
VARIABLES = "variables"
PARTIAL, DAMAGED = "partial-", "damaged-"


class DamagedError(ConfigError):
    """A checkpoint is not what was written. The message says in a few words what is wrong."""


class State(Strict):
    """What is noted with a checkpoint; the variables themselves hold every counter.

    step, stage_step: steps of the run and of the visit `stage`. schedule: the visits as stage and
    steps. ranks: how many wrote it. images: the fingerprint of the images trained on.
    """

    model_config = ConfigDict(strict=True)

    step: int = Field(ge=0)
    stage: str
    stage_step: int = Field(ge=0)
    schedule: tuple[tuple[str, int], ...]
    ranks: int = Field(ge=1)
    images: str


@dataclass(frozen=True)
class Newest:
    """The newest good checkpoint, and a line on each newer one that is damaged.

    checkpoint and state are None where a run has none yet.
    """

    checkpoint: Path | None = None
    state: State | None = None
    reports: tuple[str, ...] = ()


def checkpoints_in(folder: Path) -> list[Path]:
    """The finished checkpoints of a folder, oldest first; not verified."""
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name)]
    return sorted(found, key=step_of)


def left_in(folder: Path, kind: str) -> list[Path]:
    """What a folder holds beside them, of the kind PARTIAL or DAMAGED."""
    return sorted(folder.glob(f"{kind}*"))


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(checkpoint.name.removeprefix("step-"))


def seal(checkpoint: Path) -> None:
    """Writes the sums of all files, and waits until everything is on the disk."""
    files = sorted(path for path in checkpoint.iterdir() if path.name != SUMS)
    (checkpoint / SUMS).write_text("".join(f"{_sum(path)}  {path.name}\n" for path in files))
    for path in (*files, checkpoint / SUMS):
        sync(path)
    sync_folder(checkpoint)


def verified(checkpoint: Path) -> State:
    """The state of a checkpoint that is whole, by its sums. Raises DamagedError."""
    try:
        if checkpoint.is_symlink() or not checkpoint.is_dir():
            raise DamagedError("it is no folder")
        _check_sums(checkpoint)
        text = (checkpoint / STATE).read_bytes()
    except OSError as error:
        raise DamagedError(f"{Path(error.filename or '').name}: {error.strerror}") from None
    try:
        state = State.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedError(f"{STATE}: {f'{place}: ' if place else ''}{first['msg']}") from None
    if checkpoint.name.startswith("step-") and state.step != step_of(checkpoint):
        raise DamagedError(f"{STATE} is that of step {state.step}")
    return state


def newest_good(folder: Path, aside: bool = False) -> Newest:
    """The newest checkpoint that is whole.

    With `aside`, for the job that runs in the folder, damaged ones get another name, under which
    they are kept. Raises ConfigError if there are some, and none is good: then a run does not start
    over unless it is told to. Raises OSError where one cannot be renamed.
    """
    reports: list[str] = []
    for checkpoint in reversed(checkpoints_in(folder)):
        try:
            return Newest(checkpoint, verified(checkpoint), tuple(reports))
        except DamagedError as error:
            put = f"; set aside as {set_aside(checkpoint).name}" if aside else ""
            reports.append(f"{checkpoint.name} is damaged: {error}{put}")
    reports = reports or [f"{path.name} was found before" for path in left_in(folder, DAMAGED)]
    if reports:
        listed = "\n".join(f"  {report}" for report in reports)
        raise ConfigError(
            f"{folder}: there are checkpoints, but none is good; bring a good one back as "
            f"step-NNNNNNNN, or start over with --fresh\n{listed}"
        )
    return Newest()


def set_aside(checkpoint: Path) -> Path:
    """Renames a damaged checkpoint to a name that is not taken."""
    plain = aside = checkpoint.with_name(f"{DAMAGED}{step_of(checkpoint):08d}")
    number = 1
    while aside.exists() or aside.is_symlink():
        number += 1
        aside = plain.with_name(f"{plain.name}-{number}")
    checkpoint.rename(aside)
    sync_folder(checkpoint.parent)
    return aside


def _check_sums(checkpoint: Path) -> None:
    expected = _read_sums(checkpoint / SUMS)
    # What begins with a dot is left by network file systems and file managers.
    found = {p.name for p in checkpoint.iterdir() if p.name != SUMS and not p.name.startswith(".")}
    needed = {STATE, f"{VARIABLES}.index"}
    for missing in sorted((expected.keys() | needed) - found):
        raise DamagedError(f"{missing} is missing")
    for extra in sorted(found - expected.keys()):
        raise DamagedError(f"{extra!r} does not belong to it")
    for name, total in expected.items():
        path = checkpoint / name
        if path.is_symlink() or not path.is_file():
            raise DamagedError(f"{name} is no file")
        if _sum(path) != total:
            raise DamagedError(f"{name} is not what was written")


def _read_sums(path: Path) -> dict[str, str]:
    """The sums by file name. Raises DamagedError, or OSError where there are none."""
    if not path.exists():
        raise DamagedError(f"{SUMS} is missing")
    # One byte a character, whatever they are: a line that is none of ours does not match.
    lines = path.read_text("latin-1").splitlines()
    matches = [re.fullmatch(r"([0-9a-f]{64}) [ *]([^/\\]+)", line) for line in lines]
    if not matches or not all(matches):
        raise DamagedError(f"{SUMS} is not what was written")
    return {match[2]: match[1] for match in matches if match}


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
