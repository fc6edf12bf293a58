"""Images in one array of a file: .npy, .npz or HDF5, read one by one, never the whole file.

The array is uint8 or floats in [0, 1], [n, height, width] or [n, height, width, 1 or 3]. An .npy
file is mapped into memory, and so is an array in an .npz file, which has to be stored as `np.savez`
does it: one that is compressed can only be read from its start. Pickles are refused. The held-out
split is drawn by a hash of each image's number, so it stays the same when images are appended.
"""

from __future__ import annotations

import difflib
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import Image, Source, Split, Unreadable

HDF5 = (".h5", ".hdf5")
SUFFIXES = (".npy", ".npz", *HDF5)
# As much of an .npz member as stands before its name and extra field.
LOCAL_HEADER = 30
FINGERPRINTED = 16


class Arrays:
    """Some images of an array, which is anything that has a shape and is read by index.

    Threads may read at once: a memory map keeps no state, and h5py lets one read at a time.
    """

    def __init__(self, array: Any, rows: NDArray[np.int64]) -> None:
        self._array = array
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Image:
        try:
            image = np.asarray(self._array[int(self._rows[index])])
        except OSError as error:
            raise Unreadable(self.name(index), str(error).splitlines()[0]) from error
        if image.dtype != np.uint8:
            image = self._bytes(image, index)
        if image.ndim == 2:
            image = image[:, :, np.newaxis]
        return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else np.array(image)

    def name(self, index: int) -> str:
        return f"image {self._rows[index]}"

    def fingerprint(self) -> str:
        """Of the array's shape and type, the images' numbers, and a few images."""
        about = f"{self._array.shape} {np.dtype(self._array.dtype).str}"
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        digest.update(self._rows.astype("<i8").tobytes())
        for place in np.linspace(0, len(self._rows) - 1, min(FINGERPRINTED, len(self._rows))):
            digest.update(np.ascontiguousarray(self._array[int(self._rows[int(place)])]).tobytes())
        return digest.hexdigest()

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
        array = _open(path, settings.dataset)
    except ConfigError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"data.path: {path}: cannot be read: {reason}") from error
    _check(path, array)
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


def _open(path: Path, dataset: str | None) -> Any:
    kind = path.suffix.lower()
    if kind in HDF5:
        return _open_hdf5(path, dataset)
    if kind == ".npz":
        return _map(path, _member_start(path, dataset))
    if dataset is not None:
        raise ConfigError(f"data.dataset: {path} holds one array, without a name; leave it out")
    return _map(path, 0)


def _open_hdf5(path: Path, dataset: str | None) -> h5py.Dataset:
    # Nobody writes there, and the file systems of many clusters know no locks.
    file = h5py.File(path, "r", locking=False)
    found: dict[str, h5py.Dataset] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item

    file.visititems(note)
    return found[_choose(path, dataset.strip("/") if dataset else None, list(found))]


def _member_start(path: Path, dataset: str | None) -> int:
    """Where in an .npz file, which is a zip archive, an array begins."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    name = _choose(path, dataset, list(members))
    if members[name].compress_type != zipfile.ZIP_STORED:
        raise ConfigError(
            f"data.path: {path}: {name!r} is compressed, so no image can be read without all that "
            "stand before it; write it with np.savez, or as .npy"
        )
    start = members[name].header_offset
    with path.open("rb") as file:
        file.seek(start)
        lengths = file.read(LOCAL_HEADER)[-4:]
    return start + LOCAL_HEADER + sum(int(part) for part in np.frombuffer(lengths, "<u2"))


def _map(path: Path, start: int) -> NDArray[Any]:
    """Maps an array in .npy format that begins somewhere in a file."""
    with path.open("rb") as file:
        file.seek(start)
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"its format is NumPy's version {version}, not 1.0 or 2.0")
        shape, fortran, kind = read(file)
        if kind.hasobject:
            raise ValueError("it holds Python objects, which are never loaded")
        if 0 in shape:
            return np.zeros(shape, kind)
        return np.memmap(path, kind, "r", file.tell(), shape, "F" if fortran else "C")


def _choose(path: Path, dataset: str | None, names: list[str]) -> str:
    if not names:
        raise ConfigError(f"data.path: {path}: holds no array")
    if dataset is None:
        if len(names) == 1:
            return names[0]
        raise ConfigError(
            f"data.dataset: {path} holds {', '.join(names)}; set data.dataset={names[0]}"
        )
    if dataset not in names:
        near = difflib.get_close_matches(dataset, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it holds {', '.join(names)}"
        raise ConfigError(f"data.dataset: {path} has no {dataset!r}; {hint}")
    return dataset


def _check(path: Path, array: Any) -> None:
    shape, kind = tuple(array.shape or ()), np.dtype(array.dtype)
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


def _held_out(count: int, share: float) -> NDArray[np.bool_]:
    """Which images are held out: those whose hash, a number in [0, 1), is below the share.

    With two images or more, unless the share is 0 or 1, both sides get at least one.
    """
    hashes = _hashes(count)
    chosen = hashes < share
    if count > 1 and 0 < share < 1:
        chosen[hashes.argmin()] = True
        chosen[hashes.argmax()] = False
    return chosen


def _hashes(count: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each of 0..count-1: SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2.0**53
