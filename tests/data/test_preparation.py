"""Crops have the asked size, scale and place, without aliasing, whatever the image's shape."""

import resource

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.transform import resize

from hvd_gan.config import DataSettings
from hvd_gan.data.preparation import prepare


def _settings(size=64, short_side=None, flip=True):
    hole = {"min": 1, "max": 4}
    return DataSettings(image_size=size, short_side=short_side, flip=flip, hole=hole)


def _ramp(height, width):
    """Red is the row, green the column, as shares of the image."""
    image = np.zeros((height, width, 3))
    image[..., 0] = (np.arange(height)[:, None] + 0.5) / height
    image[..., 1] = (np.arange(width)[None] + 0.5) / width
    return np.rint(image * 255).astype(np.uint8)


def _noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@hypothesis.settings(deadline=None)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    held_out=st.booleans(),
    short_side=st.sampled_from([None, (16, 16), (16, 40)]),
)
def test_any_shape_gives_a_square_of_bytes(height, width, held_out, short_side):
    rng = None if held_out else np.random.default_rng(0)
    found = prepare(_noise(height, width, 3), rng, _settings(16, short_side))
    assert found.shape == (16, 16, 3) and found.dtype == np.uint8
    assert found.flags.c_contiguous


def test_an_image_of_the_right_size_stays_as_it_is():
    image = _noise(64, 64, 3)
    assert (prepare(image, None, _settings()) == image).all()
    assert (prepare(image, np.random.default_rng(0), _settings(flip=False)) == image).all()


def test_a_crop_without_scaling_is_a_part_of_the_image():
    image = _noise(64, 100, 3)
    assert (prepare(image, None, _settings()) == image[:, 18:82]).all()


def test_held_out_images_are_scaled_to_the_middle_of_the_range_and_cut_in_the_centre():
    # Short side 200 to 100 pixels: 64 of them are the middle 0.64 of it, and 0.32 of the long one.
    found = prepare(_ramp(200, 400), None, _settings(short_side=(80, 120))) / 255
    centres = (np.arange(64) + 0.5) / 64 - 0.5
    assert np.abs(found[..., 0] - (0.5 + 0.64 * centres)[:, None]).max() < 0.006
    assert np.abs(found[..., 1] - (0.5 + 0.32 * centres)[None]).max() < 0.006


def test_scales_and_places_of_training_crops_fill_their_ranges():
    image, settings = _ramp(200, 200), _settings(short_side=(64, 128), flip=False)
    rng = np.random.default_rng(0)
    crops = np.array([prepare(image, rng, settings) for _ in range(400)]) / 255
    top, bottom = crops[:, 0, 0, 0], crops[:, -1, 0, 0]
    share = (bottom - top) * 64 / 63
    assert 0.49 < share.min() < 0.52 and 0.97 < share.max() < 1.01
    # Every scale between is as frequent as the others.
    assert abs((64 / share).mean() - 96) < 5
    small = share < 0.75
    place = (top - share / 128)[small] / (1 - share[small])
    assert place.min() < 0.1 and place.max() > 0.9 and abs(place.mean() - 0.5) < 0.1


def test_about_half_of_the_crops_are_flipped_or_none():
    image, rng = _ramp(64, 64), np.random.default_rng(0)
    flips = sum(prepare(image, rng, _settings())[0, 0, 1] > 127 for _ in range(400))
    assert 150 < flips < 250
    assert not any(prepare(image, rng, _settings(flip=False))[0, 0, 1] > 127 for _ in range(50))


def test_a_fine_pattern_becomes_gray_not_a_coarse_pattern():
    rows, columns = np.indices((610, 610))
    checks = np.repeat(((rows + columns) % 2 * 255).astype(np.uint8)[..., None], 3, axis=2)
    found = prepare(checks, None, _settings())
    assert np.abs(found.astype(int) - 127.5).max() < 8


def test_downscaling_agrees_with_scikit_image():
    smooth = resize(_noise(12, 12, 3), (256, 256), order=3)
    image = np.rint(smooth * 255).clip(0, 255).astype(np.uint8)
    expected = resize(image, (64, 64), order=1, anti_aliasing=True) * 255
    assert np.abs(prepare(image, None, _settings()) - expected).mean() < 1


@pytest.mark.parametrize("shape", [(2, 400_000, 3), (400_000, 2, 3), (1, 1, 3)])
def test_thin_images_do_not_take_memory(shape):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for rng in (None, np.random.default_rng(0)):
        assert prepare(_noise(*shape), rng, _settings()).shape == (64, 64, 3)
    # Scaled as a whole, the first would be 64 x 12,800,000 pixels, 2.5 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_the_image_itself_is_left_alone():
    image = _noise(64, 64, 3)
    image.flags.writeable = False
    found = prepare(image, np.random.default_rng(0), _settings())
    assert found.flags.writeable and not np.shares_memory(found, image)
