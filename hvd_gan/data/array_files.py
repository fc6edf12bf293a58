"""Arrays in .npy, .npz and HDF5 files, read row by row, never the whole file.

Nothing in such a file is run or leads out of it: pickles are refused, and so are HDF5 arrays that
lie in other files. Rows are read, not mapped into memory: where a mapped file is cut off, or its
disk goes away, the system kills the process.
"""

from __future__ import annotations

import difflib
import math
import os
import zipfile
from pathlib import Path
from typing import Any, Protocol

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from hvd_gan.config_base import ConfigError

HDF5 = (".h5", ".hdf5")
# As much of an .npz member as stands before its name and extra field.
LOCAL_HEADER = 30


class RowArray(Protocol):
    """An array whose rows are read one by one, from several threads at once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape; rows are along the first axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""

    @property
    def unit(self) -> int:
        """How many bytes have to be in memory to read one row."""

    def row(self, index: int) -> NDArray[Any]:
        """One row. Raises OSError, ValueError or RuntimeError."""


class NpyRows:
    """The rows of an array in .npy format, in row order, that begins somewhere in a file."""

    def __init__(self, path: Path, start: int) -> None:
        """Raises ValueError if it is not such an array or the file ends before it does."""
        self._file = path.open("rb")
        self._file.seek(start)
        self.shape, column_order, self.dtype = _read_header(self._file)
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects, which are never loaded")
        if column_order:
            raise ValueError(
                "it is in column order, each image scattered over the whole file; write it with "
                "numpy.ascontiguousarray(array)"
            )
        if any(side < 0 for side in self.shape):
            raise ValueError(f"its shape is {list(self.shape)}")
        self.unit = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._start = self._file.tell()
        missing = self._start + math.prod(self.shape) * self.dtype.itemsize - self._size()
        if missing > 0:
            raise ValueError(f"the file is cut off: {missing} bytes are missing")

    def row(self, index: int) -> NDArray[Any]:
        parts, start, end = (
            [],
            self._start + index * self.unit,
            self._start + (index + 1) * self.unit,
        )
        while start < end:
            part = os.pread(self._file.fileno(), end - start, start)
            if not part:
                raise OSError("the file has been cut off")
            parts.append(part)
            start += len(part)
        return np.frombuffer(b"".join(parts), self.dtype).reshape(self.shape[1:])

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size


class Hdf5Rows:
    """The rows of an HDF5 dataset. h5py lets one thread read at a time."""

    def __init__(self, path: Path, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._file = path.open("rb")
        self._size = os.fstat(self._file.fileno()).st_size
        self.shape = tuple(dataset.shape or ())
        self.dtype = dataset.dtype
        self.unit = math.prod(dataset.chunks or self.shape[1:]) * self.dtype.itemsize

    def row(self, index: int) -> NDArray[Any]:
        # HDF5 takes what stands behind a file's end for zeros.
        if os.fstat(self._file.fileno()).st_size < self._size:
            raise OSError("the file has been cut off")
        return np.asarray(self._dataset[index])


def open_rows(path: Path, dataset: str | None) -> RowArray:
    """The array that a file's suffix and `dataset` name.

    Raises ConfigError, or whatever the libraries raise on a broken file.
    """
    kind = path.suffix.lower()
    if kind in HDF5:
        return _open_hdf5(path, dataset)
    if kind == ".npz":
        return NpyRows(path, _member_start(path, dataset))
    if dataset is not None:
        raise ConfigError(f"data.dataset: {path} holds one array, without a name; leave it out")
    return NpyRows(path, 0)


def _read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"its format is NumPy's version {version}, not 1.0 or 2.0")


def _open_hdf5(path: Path, dataset: str | None) -> Hdf5Rows:
    # Nobody writes there, and the file systems of many clusters know no locks.
    file = h5py.File(path, "r", locking=False)
    found: dict[str, h5py.Dataset] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item

    # Follows neither symbolic nor external links.
    file.visititems(note)
    name = _choose(path, dataset.strip("/") if dataset else None, list(found))
    if found[name].is_virtual or found[name].external:
        raise ConfigError(
            f"data.path: {path}: the values of {name!r} lie in other files, which are not read; "
            "write them into this one"
        )
    return Hdf5Rows(path, found[name])


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
