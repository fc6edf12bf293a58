"""Writes pictures of a few held-out images on rank 0, to see what the model does."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from hvd_gan.engine.graph import Arrays
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.monitors.metrics import Events
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.writing import write_whole

MARGIN = 2
BACKGROUND = 255
# Small images are enlarged by whole factors, so that a person sees the pixels that there are.
COMFORTABLE_SIDE = 64


class Samples(Monitor):
    """A grid every `every` steps and at each stage's end: a row an image, a column a picture.

    Holds no collective: reads the weights and runs the inference graph on rank 0 alone.
    """

    def __init__(
        self,
        inference: Inference,
        weights: Callable[[], Arrays],
        batch: Arrays,
        folder: Path,
        events: Events,
        every: int,
    ) -> None:
        self._inference = inference
        self._weights = weights
        self._batch = batch
        self._folder = folder
        self._events = events
        self._every = every

    def after_step(self, report: Report) -> None:
        if report.step % self._every == 0 and not report.is_last:
            self._write(report)

    def after_stage(self, report: Report) -> None:
        self._write(report)

    def _write(self, report: Report) -> None:
        self._inference.load(self._weights())
        columns = self._inference.run(self._inference.gan.images, self._batch)
        picture = grid(columns)
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        name = f"{report.step:08d}-{report.visit.label}.png"
        write_whole(self._folder / name, buffer.getvalue())
        tag = "samples/" + "_".join(columns)
        self._events.image(report.step, tag, buffer.getvalue(), picture.shape)


def grid(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Pictures side by side, images below each other: uint8 [height, width, 3].

    columns: float [images, height, width, channels] in [0, 1], channels 1 or 3. More than four
    images go into a second block of columns to the right, to keep the picture's shape pleasant.
    """
    count = len(next(iter(columns.values())))
    rows = min(count, 4) if count <= 8 else -(-count // 4)
    blocks = []
    for start in range(0, count, rows):
        block = [_column(values[start : start + rows], rows) for values in columns.values()]
        blocks.append(np.concatenate(block, axis=1))
    gap = np.full((blocks[0].shape[0], 4 * MARGIN, 3), BACKGROUND, np.uint8)
    spaced = [part for block in blocks for part in (block, gap)][:-1]
    return np.concatenate(spaced, axis=1)


def _column(images: np.ndarray, rows: int) -> np.ndarray:
    scale = max(1, COMFORTABLE_SIDE // images.shape[1])
    pixels = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3))
    pixels = pixels.repeat(scale, axis=1).repeat(scale, axis=2)
    margins = ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))
    framed = np.pad(pixels, margins, constant_values=BACKGROUND)
    missing = np.full((rows - len(framed), *framed.shape[1:]), BACKGROUND, np.uint8)
    return np.concatenate([*framed, *missing], axis=0)
