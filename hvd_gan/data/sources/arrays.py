"""Images in one array of a file: .npy, .npz or HDF5.

The array is uint8 or floats in [0, 1], [n, height, width] or [n, height, width, 1 or 3]. In an .npz
file it has to be stored as `np.savez` does it: one that is compressed can only be read from its
start. The held-out split is drawn by a hash of each image's number, so it stays the same when
images are appended.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.array_files import HDF5, RowArray, open_rows
from hvd_gan.data.patience import patiently
from hvd_gan.data.source import Image, Source, Split, Unreadable, reason_of

SUFFIXES = (".npy", ".npz", *HDF5)
FINGERPRINTED = 16
# Their numbers are kept in memory.
MOST_IMAGES = 100_000_000
# A float of HDF5's largest kind, three channels.
BYTES_PER_PIXEL = 24


class Arrays:
    """Some images of an array."""

    def __init__(self, array: RowArray, rows: NDArray[np.int64]) -> None:
        self._array = array
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Image:
        try:
            image = self._array.row(int(self._rows[index]))
        except (OSError, MemoryError) as error:
            raise Unreadable(self.name(index), reason_of(error)) from error
        except (RuntimeError, ValueError) as error:
            # What h5py makes of other damages.
            raise Unreadable(self.name(index), " ".join(str(error).split())) from error
        if image.dtype != np.uint8:
            image = self._bytes(image, index)
        if image.ndim == 2:
            image = image[:, :, np.newaxis]
        return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else np.array(image)

    def name(self, index: int) -> str:
        return f"image {self._rows[index]}"

    def fingerprint(self) -> str:
        """Of the array's shape and type, the images' numbers, and a few images, once."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        about = f"{self._array.shape} {self._array.dtype.str}"
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        digest.update(self._rows.astype("<i8").tobytes())
        for place in np.linspace(0, len(self._rows) - 1, min(FINGERPRINTED, len(self._rows))):
            digest.update(self._sample(int(self._rows[int(place)])))
        return digest.hexdigest()

    def _sample(self, row: int) -> bytes:
        try:
            return patiently(lambda: self._array.row(row)).tobytes()
        except (OSError, RuntimeError, ValueError) as error:
            # A damaged image is no reason not to train on the others.
            return type(error).__name__.encode()

    def _bytes(self, image: NDArray[Any], index: int) -> NDArray[np.uint8]:
        low, high = float(image.min()), float(image.max())
        # False for NaN too.
        if not 0 <= low <= high <= 1:
            raise Unreadable(
                self.name(index), f"its values, {low:g} to {high:g}, lie outside 0 to 1"
            )
        return np.rint(image * np.float32(255)).astype(np.uint8)


def open_source(settings: DataSettings, split: Split) -> Source:
    """One split of the array that `settings.path` and `settings.dataset` name.

    Raises ConfigError, in one line, where there is no such array, or none of images.
    """
    path = _path(settings)
    try:
        array = patiently(lambda: open_rows(path, settings.dataset))
    except ConfigError:
        raise
    except Exception as error:
        # zipfile, NumPy's parser of headers and h5py raise nearly anything on broken files.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"data.path: {path}: cannot be read: {reason}") from error
    _check(path, array, settings.max_pixels)
    held_out = _held_out(array.shape[0], settings.held_out)
    if split == "train" and held_out.all():
        raise ConfigError(
            f"data.held_out: {settings.held_out} holds back all {len(held_out)} images; "
            "none is left to train on"
        )
    return Arrays(array, np.flatnonzero(held_out == (split == "held_out")))


def _path(settings: DataSettings) -> Path:
    if settings.path is None:
        raise ConfigError("data.path: source arrays needs a path; set data.path=/my/images.npy")
    path = settings.path.expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"data.path: {path}: source arrays reads {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ConfigError(f"data.path: {path}: there is no such file on this host")
    return path


def _check(path: Path, array: RowArray, max_pixels: int) -> None:
    shape, kind = array.shape, array.dtype
    if kind != np.uint8 and not np.issubdtype(kind, np.floating):
        raise ConfigError(f"data.path: {path}: {kind} values; uint8, or floats in [0, 1], are read")
    if len(shape) != 3 and (len(shape) != 4 or shape[3] not in (1, 3)):
        first = len(shape) == 4 and shape[1] in (1, 3)
        cure = "; channels go last: np.moveaxis(array, 1, -1)" if first else ""
        raise ConfigError(
            f"data.path: {path}: an array {list(shape)}; [n, height, width] or "
            f"[n, height, width, 1 or 3] is read{cure}"
        )
    if 0 in shape:
        raise ConfigError(f"data.path: {path}: an array {list(shape)}, without an image")
    if shape[1] * shape[2] > max_pixels:
        raise ConfigError(
            f"data.path: {path}: images of {shape[2]} x {shape[1]} pixels, more than "
            f"data.max_pixels={max_pixels}"
        )
    if array.unit > BYTES_PER_PIXEL * max_pixels:
        raise ConfigError(
            f"data.path: {path}: chunks of {array.unit:,} bytes, each read as a whole; write it "
            "with a chunk an image"
        )
    if shape[0] > MOST_IMAGES:
        raise ConfigError(f"data.path: {path}: {shape[0]:,} images, more than {MOST_IMAGES:,}")


def _held_out(count: int, share: float) -> NDArray[np.bool_]:
    """Which images are held out: those whose hash, a number in [0, 1), is below the share.

    Unless the share is 0 or 1, both sides get at least one; a single image is trained on.
    """
    hashes = _hashes(count)
    chosen = hashes < share
    if 0 < share < 1:
        chosen[hashes.argmin()] = True
        # After the smallest: of a single image it is the same.
        chosen[hashes.argmax()] = False
    return chosen


def _hashes(count: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each of 0..count-1: SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2.0**53
