"""The holes that are cut into images: boxes, and brush strokes within boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from hvd_gan.config import HoleSettings

STROKES = (2, 4)
CORNERS = (3, 6)
# The brush's width as a share of the box's shorter side.
BRUSH = (0.12, 0.28)


def draw_hole(
    rng: np.random.Generator, settings: HoleSettings, image_size: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """A random hole in a square image.

    Returns the mask, float32 [image_size, image_size, 1], 1 inside the hole and 0 outside, and
    the hole's bounding box, int32 [4]: top, left, height, width, in pixels. The sides are uniform
    in [min, max], each for itself. Strokes lie within the box and need not touch its edges.
    """
    box = draw_box(rng, settings, image_size)
    top, left, height, width = (int(side) for side in box)
    mask = np.zeros((image_size, image_size, 1), np.float32)
    inside = mask[top : top + height, left : left + width, 0]
    inside[:] = 1 if settings.kind == "box" else _strokes(rng, height, width)
    return mask, box


def draw_box(
    rng: np.random.Generator, settings: HoleSettings, image_size: int
) -> NDArray[np.int32]:
    """Where a hole may be, without one: int32 [4], top, left, height, width, in pixels."""
    height, width = (int(side) for side in rng.integers(settings.min, settings.max + 1, size=2))
    top = _offset(rng, height, settings.place, image_size)
    left = _offset(rng, width, settings.place, image_size)
    return np.array([top, left, height, width], np.int32)


def _offset(rng: np.random.Generator, side: int, place: str, image_size: int) -> int:
    low, high = 0, image_size - side
    if place == "centre":
        # In whole numbers: abs(offset + side / 2 - image_size / 2) <= image_size / 16.
        low = max(low, -(-(7 * image_size - 8 * side) // 16))
        high = min(high, (9 * image_size - 8 * side) // 16)
    return int(rng.integers(low, high + 1))


def _strokes(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    """Random polylines with round joints and caps: float32 [height, width], 1 where drawn.

    In the spirit of the free-form masks of Yu et al. 2019 (gated convolution), section 3.3.
    """
    canvas = Image.new("1", (width, height))
    draw = ImageDraw.Draw(canvas)
    for _ in range(rng.integers(*STROKES, endpoint=True)):
        brush = max(1, round(min(height, width) * rng.uniform(*BRUSH)))
        # Corners keep half a brush away from the edges, so that strokes are not cut off there.
        radius = (brush - 1) / 2
        share = rng.random((rng.integers(*CORNERS, endpoint=True), 2))
        corners = radius + share * (np.array([width, height]) - brush)
        points = [(float(x), float(y)) for x, y in corners]
        draw.line(points, fill=1, width=brush)
        for x, y in points:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=1)
    return np.asarray(canvas, np.float32)
