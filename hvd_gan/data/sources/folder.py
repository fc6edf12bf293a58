"""A folder of images, searched with all folders below it.

The held-out split is drawn by a hash of each file's relative path, so it stays the same when files
are added. In the settings `held_out` is its share: 0 holds nothing back, 1 everything.

Several links to one file, hard or symbolic, count once. Copies are images of their own: telling
them would take reading all files.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.decoding import EXTENSIONS, quiet_pillow, read_image
from hvd_gan.data.patience import may_pass, patiently
from hvd_gan.data.source import Image, Source, Split, reason_of

SUFFIXES = tuple(f".{extension}".encode() for extension in EXTENSIONS)


class Folder:
    """Image files by their paths, relative to `root`, in the order of their bytes.

    Paths are bytes, as Linux has them: names need not be valid text, and the order does not depend
    on a host's locale. `sizes` are those of the files when they were listed, in bytes, or -1.
    `notes` are lines for the person.
    """

    def __init__(
        self,
        root: bytes,
        sizes: dict[bytes, int],
        settings: DataSettings,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.notes = notes
        self._root = root
        self._files = list(sizes)
        self._sizes = sizes
        self._settings = settings

    def __len__(self) -> int:
        return len(self._files)

    def read(self, index: int) -> Image:
        path = os.path.join(self._root, self._files[index])
        short_side = self._settings.scale_range[1]
        return read_image(path, self.name(index), self._settings.max_pixels, short_side)

    def name(self, index: int) -> str:
        return printable(self._files[index])

    @functools.cached_property
    def _fingerprint(self) -> str:
        return hashlib.blake2b(self.listing(), digest_size=16).hexdigest()

    def fingerprint(self) -> str:
        """Of the names and sizes as they were listed: files may change under a run."""
        return self._fingerprint

    def listing(self) -> bytes:
        """Each file's path and size, ended by a zero byte each."""
        return b"".join(b"%b\0%d\0" % item for item in self._sizes.items())

    def as_listed(self, listing: bytes) -> Folder:
        """See Listed."""
        *parts, _ = listing.split(b"\0")
        begun = dict(zip(parts[::2], map(int, parts[1::2]), strict=True))
        gone = sum(1 for file in begun if file not in self._sizes)
        changed = sum(1 for file, size in begun.items() if self._sizes.get(file, size) != size)
        new = sum(1 for file in self._sizes if file not in begun)
        if gone + changed > self._settings.max_unreadable * len(begun):
            raise ConfigError(
                f"data.path: {printable(self._root)}: of the {len(begun)} images that the run "
                f"began with, gone: {gone}, of another size: {changed}, more than "
                f"data.max_unreadable={self._settings.max_unreadable:g} allows; bring the old ones "
                "back, or start over with --fresh"
            )
        notes = self.notes
        if gone or changed or new:
            notes += (
                f"since the run began, gone: {gone}, of another size: {changed}, "
                f"new and not used: {new}",
            )
        return Folder(self._root, begun, self._settings, notes)


def open_source(settings: DataSettings, split: Split) -> Source:
    """The images under `settings.path`. Raises ConfigError if there is none to be had."""
    root = patiently(lambda: _root(settings))
    found = patiently(lambda: _find_all(os.fsencode(root)))
    sizes = _without_twins(found)
    if not sizes:
        raise ConfigError(
            f"data.path: {printable(os.fsencode(root))}: no image in this folder or below it "
            f"({', '.join(EXTENSIONS)})"
        )
    quiet_pillow(settings.max_pixels)
    held_out = _held_out(list(sizes), settings.held_out)
    if split == "train" and len(held_out) == len(sizes):
        raise ConfigError(
            f"data.held_out: {settings.held_out} holds back all {len(sizes)} images; "
            "none is left to train on"
        )
    chosen = {
        file: size for file, size in sizes.items() if (file in held_out) == (split == "held_out")
    }
    twins = len(found) - len(sizes)
    notes = (f"left out {twins} links to files that are there already",) if twins else ()
    return Folder(os.fsencode(root), chosen, settings, notes if split == "train" else ())


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
    shown = printable(os.fsencode(root))
    if not root.exists():
        raise ConfigError(f"data.path: {shown}: there is no such folder on this host")
    if not root.is_dir():
        raise ConfigError(f"data.path: {shown} is a file; name the folder that holds the images")
    return root


class _Entry(NamedTuple):
    """A file's relative path, its size in bytes, -1 if it cannot be asked for, and its identity.

    linked: whether the file may have other names, as far as this one can tell.
    """

    path: bytes
    size: int
    device: int
    inode: int
    linked: bool


def _find_all(root: bytes) -> list[_Entry]:
    """The image files below a folder, in the order of their paths.

    Raises ConfigError where a folder cannot be listed: nobody knows what is missing then.
    """
    try:
        return sorted(_find(root), key=lambda entry: entry.path)
    except OSError as error:
        where = printable(os.fsencode(error.filename or root))
        raise ConfigError(f"data.path: {where}: cannot be listed: {reason_of(error)}") from error


def _find(root: bytes) -> Iterator[_Entry]:
    """The image files below a folder, links followed, no folder twice.

    A folder that is reached on two ways counts once, by the way that sorts first: that ends loops,
    and an image and its twin cannot come to stand on both sides of the split. Whatever else has an
    image's name, a pipe or a link to nowhere, is found too: it is then reported as unreadable, not
    passed over.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [b""]
    while waiting:
        prefix = waiting.pop()
        folder = os.path.join(root, prefix).rstrip(b"/") or b"/"
        about = os.stat(folder)
        if (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        below = []
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            if _is_folder(entry):
                below.append(prefix + entry.name + b"/")
            elif entry.name.lower().endswith(SUFFIXES):
                yield _entry(entry, prefix + entry.name)
        waiting += reversed(below)


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    # Not entry.is_dir(): it raises on a link that leads to itself.
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path))


def _entry(entry: os.DirEntry[bytes], path: bytes) -> _Entry:
    try:
        about = os.stat(entry.path)
    except OSError as error:
        if may_pass(error):
            raise
        # It is reported when it is read.
        return _Entry(path, -1, 0, 0, linked=False)
    linked = entry.is_symlink() or about.st_nlink > 1
    return _Entry(path, about.st_size, about.st_dev, about.st_ino, linked)


def _without_twins(found: list[_Entry]) -> dict[bytes, int]:
    """Sizes by path: of several links to one file the one that sorts first."""
    if not found:
        return {}
    identities = np.array([(entry.device, entry.inode) for entry in found], np.uint64)
    _, first, inverse = np.unique(identities, axis=0, return_index=True, return_inverse=True)
    first = first[inverse.ravel()]
    # Not by identity alone: some network file systems give many files the same one.
    linked = np.array([entry.linked for entry in found])
    twins = (first != np.arange(len(found))) & (linked | linked[first])
    return {entry.path: entry.size for entry, twin in zip(found, twins, strict=True) if not twin}


def _held_out(files: list[bytes], share: float) -> set[bytes]:
    """Files whose hash, read as a number in [0, 1), is below the share.

    Unless the share is 0 or 1, both sides get at least one; a single file is trained on.
    """
    hashes = {file: _hash(file) for file in files}
    chosen = {file for file in files if hashes[file] < share}
    if 0 < share < 1:
        chosen.add(min(files, key=hashes.__getitem__))
        # After the smallest: of a single file it is the same.
        chosen.discard(max(files, key=hashes.__getitem__))
    return chosen


def _hash(file: bytes) -> float:
    digest = hashlib.blake2b(file, digest_size=6).digest()
    return int.from_bytes(digest, "little") / 2**48
