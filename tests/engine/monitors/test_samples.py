"""The grid of sample pictures."""

from __future__ import annotations

import numpy as np

from hvd_gan.engine.monitors.samples import MARGIN, grid


def test_images_stand_below_each_other_and_pictures_side_by_side():
    columns = {
        "one": np.zeros((3, 64, 64, 3)),
        "other": np.stack([np.full((64, 64, 1), value) for value in (0.2, 0.4, 2.0)]),
    }
    picture = grid(columns)
    side = 64 + 2 * MARGIN
    assert picture.shape == (3 * side, 2 * side, 3) and picture.dtype == np.uint8
    centres = [picture[row * side + side // 2, side + side // 2, 0] for row in range(3)]
    assert centres == [51, 102, 255]
    assert picture[0, 0, 0] == 255


def test_small_images_are_enlarged_and_many_wrap_into_blocks():
    picture = grid({"a": np.zeros((8, 16, 16, 3))})
    side = 64 + 2 * MARGIN
    assert picture.shape[0] == 4 * side
    assert picture.shape[1] == 2 * side + 4 * MARGIN
