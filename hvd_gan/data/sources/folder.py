"""A folder of images, searched with all folders below it.

The held-out split is drawn by a hash of each file's relative path, so it stays the same when files
are added. In the settings `held_out` is its share: 0 holds nothing back, 1 everything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.decoding import EXTENSIONS, quiet_pillow, read_image
from hvd_gan.data.source import Image, Source, Split

SUFFIXES = tuple(f".{extension}".encode() for extension in EXTENSIONS)


class Folder:
    """Image files by their paths, relative to `root`, in the order of their bytes.

    Paths are bytes, as Linux has them: names need not be valid text, and the order does not depend
    on a host's locale.
    """

    def __init__(self, root: bytes, files: list[bytes], settings: DataSettings) -> None:
        self._root = root
        self._files = files
        self._max_pixels = settings.max_pixels
        self._short_side = settings.scale_range[1]

    def __len__(self) -> int:
        return len(self._files)

    def read(self, index: int) -> Image:
        path = os.path.join(self._root, self._files[index])
        return read_image(path, self.name(index), self._max_pixels, self._short_side)

    def name(self, index: int) -> str:
        return printable(self._files[index])

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for file in self._files:
            digest.update(b"%b\0%d\0" % (file, _size(os.path.join(self._root, file))))
        return digest.hexdigest()


def open_source(settings: DataSettings, split: Split) -> Source:
    """The images under `settings.path`. Raises ConfigError if there is none to be had."""
    root = _root(settings)
    files = sorted(_find(os.fsencode(root)))
    if not files:
        raise ConfigError(
            f"data.path: {root}: no image in this folder or below it ({', '.join(EXTENSIONS)})"
        )
    quiet_pillow(settings.max_pixels)
    held_out = _held_out(files, settings.held_out)
    if split == "train" and len(held_out) == len(files):
        raise ConfigError(
            f"data.held_out: {settings.held_out} holds back all {len(files)} images; "
            "none is left to train on"
        )
    chosen = [file for file in files if (file in held_out) == (split == "held_out")]
    return Folder(os.fsencode(root), chosen, settings)


def printable(path: bytes) -> str:
    """A path as one line of text: what cannot be shown is escaped."""
    text = path.decode("utf-8", "surrogateescape")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _root(settings: DataSettings) -> Path:
    if settings.path is None:
        raise ConfigError("data.path: source folder needs a path; set data.path=/my/images")
    root = settings.path.expanduser()
    if not root.exists():
        raise ConfigError(f"data.path: {root}: there is no such folder on this host")
    if not root.is_dir():
        raise ConfigError(f"data.path: {root} is a file; name the folder that holds the images")
    return root


def _find(root: bytes) -> Iterator[bytes]:
    """The relative paths of the image files below a folder, links followed, no folder twice.

    A folder that is reached on two ways counts once, by the way that sorts first: that ends loops,
    and an image and its twin cannot come to stand on both sides of the split.
    """
    seen: set[tuple[int, int]] = set()

    def walk(folder: bytes, prefix: bytes) -> Iterator[bytes]:
        about = os.stat(folder)
        if (about.st_dev, about.st_ino) in seen:
            return
        seen.add((about.st_dev, about.st_ino))
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            if _is_folder(entry):
                yield from walk(entry.path, prefix + entry.name + b"/")
            elif entry.name.lower().endswith(SUFFIXES) and _is_file(entry):
                yield prefix + entry.name

    try:
        yield from walk(root, b"")
    except OSError as error:
        where = printable(os.fsencode(error.filename or root))
        raise ConfigError(f"data.path: {where}: cannot be listed: {error.strerror}") from error


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    # Not entry.is_dir(): it raises on a link that leads to itself.
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path))


def _is_file(entry: os.DirEntry[bytes]) -> bool:
    """A dangling link counts as a file: it is then reported as unreadable, not passed over."""
    path = entry.path
    return entry.is_file(follow_symlinks=False) or (
        entry.is_symlink() and (os.path.isfile(path) or not os.path.exists(path))
    )


def _held_out(files: list[bytes], share: float) -> set[bytes]:
    """Files whose hash, read as a number in [0, 1), is below the share.

    With two files or more, unless the share is 0 or 1, both sides get at least one.
    """
    hashes = {file: _hash(file) for file in files}
    chosen = {file for file in files if hashes[file] < share}
    if len(files) > 1 and 0 < share < 1:
        chosen.add(min(files, key=hashes.__getitem__))
        chosen.discard(max(files, key=hashes.__getitem__))
    return chosen


def _hash(file: bytes) -> float:
    digest = hashlib.blake2b(file, digest_size=6).digest()
    return int.from_bytes(digest, "little") / 2**48


def _size(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
