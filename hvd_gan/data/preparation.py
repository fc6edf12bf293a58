"""From a whole image of any size to a square crop of the training size."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hvd_gan.config import DataSettings


def prepare(
    image: NDArray[np.uint8], rng: np.random.Generator | None, settings: DataSettings
) -> NDArray[np.uint8]:
    """Scales the short side into `settings.scale_range`, crops a square, flips half of them.

    `image` is uint8 [height, width, 3] of any size from 1 x 1; small ones are enlarged. Returns
    uint8 [image_size, image_size, 3]. Without `rng` (held-out images) nothing is random: the
    middle of the range, the centre of the image, no flip.
    """
    low, high = settings.scale_range
    if rng is None:
        short, down, right, flip = (low + high) / 2, 0.5, 0.5, False
    else:
        short = int(rng.integers(low, high, endpoint=True))
        down, right, flip = rng.random(), rng.random(), bool(rng.random() < 0.5)
    height, width = image.shape[:2]
    side = min(height, width) * settings.image_size / short
    crop = _resized_square(
        image, (height - side) * down, (width - side) * right, side, settings.image_size
    )
    return np.ascontiguousarray(crop[:, ::-1]) if flip and settings.flip else crop


def _resized_square(
    image: NDArray[np.uint8], top: float, left: float, side: float, size: int
) -> NDArray[np.uint8]:
    """The square at (top, left) of `side` source pixels, scaled to `size`, without aliasing.

    Only the square is scaled: a long, thin image, scaled as a whole, could take gigabytes.
    """
    first_row, first_column = math.floor(top), math.floor(left)
    region = image[first_row : math.ceil(top + side), first_column : math.ceil(left + side)]
    y, x = top - first_row, left - first_column
    box = (x, y, min(x + side, region.shape[1]), min(y + side, region.shape[0]))
    picture = Image.fromarray(np.ascontiguousarray(region))
    scaled = picture.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)
    return np.array(scaled)
