"""Writes files whole or not at all, and tells in the file system's own words why it could not."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"


class WriteError(OSError):
    """Something could not be written. The message names it, the file system's answer and where."""


@contextmanager
def writing(what: str, folder: Path, *others: type[Exception]) -> Iterator[None]:
    """Turns an OSError, or one of some other kinds, that comes up inside into a WriteError."""
    kinds: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except kinds as error:
        raise WriteError(f"{what} could not be written in {folder}: {answer(error)}") from error


def answer(error: Exception) -> str:
    """What the file system answered: the same words from Python and from TensorFlow."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # TensorFlow: a few lines on the graph, then "path; No space left on device".
    text = str(getattr(error, "message", None) or error)
    said = re.search(r"^.*; (.+)$", text, re.MULTILINE)
    return said[1] if said else " ".join(text.split())


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file, with its folder, under another name, and renames it once it is on the disk.

    Raises WriteError, and then leaves what was there before.
    """
    partial = path.with_name(path.name + PARTIAL)
    with writing(path.name, path.parent):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        except OSError:
            remove(partial)
            raise


def append(path: Path, data: bytes) -> None:
    """Adds to a file, all or nothing. Raises WriteError."""
    with writing(path.name, path.parent), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            written = file.write(data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(size)
            raise


def sync(path: Path) -> None:
    """Waits until a file's content is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Waits until the names in a folder are on the disk, where its file system can tell."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Removes a file or a folder if it can; what is left has a name that nobody reads."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
