"""Held-out samples: the same images with the same holes whenever they are asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from hvd_gan.config import DataSettings
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import Source

CHUNK = 32


class HeldOut:
    """The held-out images of a source, with holes fixed by the run's seed."""

    def __init__(self, source: Source, settings: DataSettings, seed: int) -> None:
        self._sampler = Sampler(source, settings, seed=seed, held_out=True)
        self._mean_color = np.asarray(settings.mean_color, np.float32)

    def batch(self, positions: range) -> dict[str, np.ndarray]:
        """The samples at some positions, with the names and types of the training batches."""
        samples = [self._sampler.sample(position) for position in positions]
        columns = {
            name: np.stack(values)
            for name, values in zip(samples[0]._fields, zip(*samples, strict=True), strict=True)
        }
        columns["image"] = columns["image"].astype(np.float32) / 255
        return {**columns, "mean_color": self._mean_color}

    def skipped(self) -> dict[str, str]:
        """Why images could not be read, by their names: those met so far."""
        return self._sampler.skipped(before=sys.maxsize)

    def batches(self, samples: int, rank: int, ranks: int) -> Iterator[dict[str, np.ndarray]]:
        """A rank's part of the first `samples` samples, in small batches."""
        mine = range(rank, samples, ranks)
        for start in range(0, len(mine), CHUNK):
            yield self.batch(mine[start : start + CHUNK])
