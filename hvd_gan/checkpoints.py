"""A run's checkpoints: which there are and which are good. `python -m hvd_gan.checkpoints RUN`

Reads every file and compares it with its sum. Exits 0 if all are good, 1 if one is damaged or none
is there, 2 if there is no such run or a job holds it. Needs no launcher.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.checkpoint_files import (
    DAMAGED,
    PARTIAL,
    SUMS,
    DamagedError,
    checkpoints_in,
    left_in,
    verified,
)
from hvd_gan.engine.writing import remove
from hvd_gan.run_folder import RunFolder
from hvd_gan.run_lock import RunLock

GOOD, WRONG, UNFINISHED = "good", "damaged", "partial"
PLAIN_WIDTH = 80


@dataclass(frozen=True)
class Found:
    """A checkpoint as it was found.

    state: GOOD, WRONG or UNFINISHED; `finding` says what is wrong. step, stage and stage_step are
    known of a good one. bytes: of all its files. seconds: since it was written.
    """

    name: str
    state: str
    finding: str
    step: int | None
    stage: str | None
    stage_step: int | None
    bytes: int
    seconds: float


def parser() -> argparse.ArgumentParser:
    """The command line of `checkpoints`."""
    arguments = argparse.ArgumentParser(prog="python -m hvd_gan.checkpoints", description=__doc__)
    arguments.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")
    arguments.add_argument(
        "--prune",
        type=_count,
        metavar="N",
        help="remove all but the newest N good ones, and if one is good the damaged ones",
    )
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, prunes and lists. Returns the exit code."""
    options = parser().parse_args(arguments)
    folder = RunFolder(options.run)
    try:
        if not folder.path.is_dir():
            raise ConfigError(f"{folder.path}: there is no such folder")
        if options.prune:
            for name in prune(folder, options.prune):
                print(f"removed {name}", file=sys.stderr)
        found = look(folder.checkpoints)
    except (ConfigError, OSError) as error:
        print(f"hvd_gan: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    elif found:
        show(found)
    else:
        print(f"{folder.path}: has no checkpoint")
    states = {one.state for one in found}
    return 0 if GOOD in states and WRONG not in states else 1


def look(folder: Path) -> list[Found]:
    """All checkpoints of a folder, verified: the finished ones, set aside and partial ones too.

    The newest is the last.
    """
    paths = [*left_in(folder, PARTIAL), *left_in(folder, DAMAGED), *checkpoints_in(folder)]
    found = [_look_at(path) for path in sorted(paths, key=_step)]
    # A job that runs in the folder may have removed one in the meantime.
    return [one for one in found if one is not None]


def prune(folder: RunFolder, keep: int) -> list[str]:
    """Removes what is not one of the newest `keep` good ones, and returns the names.

    Where none is good, a damaged one may be all that is left of the run, so those stay. Raises
    ConfigError while a job runs in the folder.
    """
    if not folder.checkpoints.is_dir():
        return []
    lock = RunLock()
    for warning in lock.take(folder.lock, wait=0):
        print(warning, file=sys.stderr)
    try:
        found = look(folder.checkpoints)
        good = [one.name for one in found if one.state == GOOD]
        doomed = [one.name for one in found if one.state == UNFINISHED] + good[:-keep]
        if good:
            doomed += [one.name for one in found if one.state == WRONG]
        for name in doomed:
            path = folder.checkpoints / name
            # A checkpoint that is half removed must not look like one.
            unfinished = path.with_name(f"{PARTIAL}{name}")
            path.rename(unfinished)
            remove(unfinished)
    finally:
        lock.close()
    return doomed


def show(found: Sequence[Found]) -> None:
    """Prints a table, a row a checkpoint, which fits into 80 columns."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)
    table = Table(box=None, pad_edge=False)
    for heading in ("checkpoint", "stage", "size", "age"):
        right = heading in ("size", "age")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    table.add_column("state")
    for one in found:
        table.add_row(
            escape(one.name),
            f"{one.stage}, step {one.stage_step}" if one.stage else "",
            size(one.bytes),
            age(one.seconds),
            escape(f"{one.state}: {one.finding}") if one.finding else one.state,
        )
    console.print(table)


def size(number: float) -> str:
    """A number of bytes, short: 512 B, 1.5 MB."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def age(seconds: float) -> str:
    """A duration in its largest unit: 42 s, 7 min, 5 h, 12 d."""
    for unit, length, least in (("d", 86400, 2), ("h", 3600, 2), ("min", 60, 2)):
        if seconds >= least * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _step(path: Path) -> int:
    """The step in the name of a checkpoint, of whatever kind."""
    number = re.search(r"\d+", path.name)
    return int(number[0]) if number else 0


def _look_at(path: Path) -> Found | None:
    try:
        files = {entry.name: entry.stat() for entry in path.iterdir()} if path.is_dir() else {}
        written = files.get(SUMS, path.lstat()).st_mtime
    except FileNotFoundError:
        return None
    found = Found(
        name=path.name,
        state=UNFINISHED,
        finding="",
        step=None,
        stage=None,
        stage_step=None,
        bytes=sum(entry.st_size for entry in files.values()),
        seconds=time.time() - written,
    )
    if path.name.startswith(PARTIAL):
        return found
    try:
        state = verified(path)
    except DamagedError as error:
        return replace(found, state=WRONG, finding=str(error)) if path.exists() else None
    known = replace(found, step=state.step, stage=state.stage, stage_step=state.stage_step)
    if path.name.startswith(DAMAGED):
        return replace(known, state=WRONG, finding="set aside, though whole now")
    return replace(known, state=GOOD)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("the last good one stays: 1 at least")
    return value


if __name__ == "__main__":
    sys.exit(main())
