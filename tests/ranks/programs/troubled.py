"""Images from memory, whose storage is in trouble on rank 1, in the way that a variable names."""

from __future__ import annotations

import errno
import os
import time

import numpy as np

RANK = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("HOROVOD_RANK", "0"))
TROUBLE = os.environ.get("TROUBLE", "none") if RANK == "1" else "none"
SECONDS = 4.0


class Troubled:
    def __init__(self, count: int) -> None:
        self.count = count
        self.reads = 0
        self.until = 0.0

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> np.ndarray:
        self.reads += 1
        if self.reads == 30:
            self.until = time.monotonic() + SECONDS
            if TROUBLE == "slow":
                time.sleep(4 * SECONDS)
        if TROUBLE == "away" and time.monotonic() < self.until:
            raise OSError(errno.ESTALE, "Stale file handle")
        if TROUBLE == "gone" and self.reads >= 30:
            raise OSError(errno.EIO, "Input/output error")
        return np.random.default_rng(index).integers(0, 255, (32, 32, 3), np.uint8)

    def name(self, index: int) -> str:
        return f"number {index}"

    def fingerprint(self) -> str:
        return f"{self.count}"


def open_source(settings, split):
    return Troubled(50 if split == "train" else 0)
