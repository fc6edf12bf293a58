"""Sample k of a run: its image, cropped and with a hole, as a pure function of (seed, k)."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data import order
from hvd_gan.data.holes import draw_box, draw_hole
from hvd_gan.data.preparation import prepare
from hvd_gan.data.reading import Reader
from hvd_gan.data.source import Image, Source, Unreadable

# So many unreadable images in a row, at least, and the data is not what the user thinks it is.
LEAST_TRIES = 32
# Where the set share is unreadable, that many in a row are rarer than this.
CHANCE = 1e-12
NOISE_SEEDS = 2**31 - 1


class Sample(NamedTuple):
    """image: uint8 [size, size, 3]; mask: float32 [size, size, 1], 1 inside the hole;
    box: int32 [4], the hole's top, left, height, width; real_box: like box, another random place,
    for a model that looks at a part of the real image too; noise_seed: int32 [2], not negative,
    what a model that needs random numbers draws them from."""

    image: NDArray[np.uint8]
    mask: NDArray[np.float32]
    box: NDArray[np.int32]
    real_box: NDArray[np.int32]
    noise_seed: NDArray[np.int32]


@dataclass(frozen=True)
class _Finding:
    """Why an image cannot be read, and the first position at which that was met."""

    position: int
    reason: str


class Sampler:
    """Makes samples from a source, in any order and from several threads at once."""

    def __init__(
        self, source: Source, settings: DataSettings, *, seed: int, held_out: bool = False
    ) -> None:
        """Raises ConfigError if the source is empty."""
        if not len(source):
            split = "held-out images" if held_out else "images"
            raise ConfigError(f"data.source: {settings.source} has no {split}")
        self.source = source
        self.settings = settings
        self.seed = seed
        self.held_out = held_out
        self._reader = Reader(source)
        self._findings: dict[str, _Finding] = {}
        self._lock = threading.Lock()

    def sample(self, position: int) -> Sample:
        """The sample at a position of the run, counted from 0 over all ranks.

        Raises ConfigError if no image can be read there, or if the source breaks its promise.
        """
        rng = order.generator(self.seed, position)
        # The hole comes first, so that it is the same whichever image is put under it.
        mask, box = draw_hole(rng, self.settings.hole, self.settings.image_size)
        real_box = draw_box(rng, self.settings.hole, self.settings.image_size)
        image = prepare(self._read(position), None if self.held_out else rng, self.settings)
        noise_seed = rng.integers(0, NOISE_SEEDS, size=2, dtype=np.int32)
        return Sample(image, mask, box, real_box, noise_seed)

    def skipped(self, before: int) -> dict[str, str]:
        """Why images could not be read, by their names: those met at positions below `before`.

        Once all samples below `before` are made, on whatever ranks, the ranks' answers together
        depend on the data alone: samples that were made ahead do not count.
        """
        with self._lock:
            return {
                name: finding.reason
                for name, finding in self._findings.items()
                if finding.position < before
            }

    def _read(self, position: int) -> Image:
        count = len(self.source)
        findings: list[Unreadable] = []
        for tries in range(min(most_tries(self.settings.max_unreadable), count)):
            index = order.image_at(
                position, count=count, seed=self.seed, held_out=self.held_out, tries=tries
            )
            try:
                image = self._reader.read(index)
            except Unreadable as finding:
                findings.append(finding)
                continue
            self._check(image, index)
            self._note(position, findings)
            return image
        self._note(position, findings)
        few = "none of its" if len(findings) == count else "none of"
        many = "images" if len(findings) == count else "images in a row"
        raise ConfigError(
            f"data.source: {self.settings.source}: {few} {len(findings)} {many} can be read; "
            f"the first is {findings[0]}"
        )

    def _check(self, image: Image, index: int) -> None:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise ConfigError(
                f"data.source: {self.settings.source}: {self.source.name(index)} is "
                f"{image.dtype} {list(image.shape)}; uint8 [height, width, 3] is expected"
            )

    def _note(self, position: int, findings: list[Unreadable]) -> None:
        with self._lock:
            for finding in findings:
                known = self._findings.get(finding.name)
                if known is None or position < known.position:
                    self._findings[finding.name] = _Finding(position, finding.reason)


def most_tries(share: float) -> int:
    """How many unreadable images in a row end the run, where a share of them may be unreadable."""
    if not 0 < share < 1:
        return sys.maxsize if share else LEAST_TRIES
    return max(LEAST_TRIES, math.ceil(math.log(CHANCE) / math.log(share)))
