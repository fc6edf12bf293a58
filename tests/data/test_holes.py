"""Holes lie inside the image, in the asked sizes and places."""

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvd_gan.config import HoleSettings
from hvd_gan.data.holes import draw_hole


@st.composite
def geometries(draw):
    size = draw(st.integers(8, 160))
    low = draw(st.integers(1, size))
    return size, low, draw(st.integers(low, size))


@hypothesis.settings(deadline=None)
@given(
    geometry=geometries(),
    kind=st.sampled_from(["box", "strokes"]),
    place=st.sampled_from(["anywhere", "centre"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_hole_lies_in_its_box_and_the_box_in_the_image(geometry, kind, place, seed):
    size, low, high = geometry
    settings = HoleSettings(kind=kind, min=low, max=high, place=place)
    mask, box = draw_hole(np.random.default_rng(seed), settings, size)
    top, left, height, width = box.tolist()
    assert mask.dtype == np.float32 and mask.shape == (size, size, 1)
    assert box.dtype == np.int32 and box.shape == (4,)
    assert low <= height <= high and low <= width <= high
    assert top >= 0 and left >= 0 and top + height <= size and left + width <= size
    inside = mask[top : top + height, left : left + width]
    assert set(np.unique(mask)) <= {0, 1} and inside.any() and mask.sum() == inside.sum()
    if kind == "box":
        assert inside.all()
    if place == "centre":
        for start, side in ((top, height), (left, width)):
            # As wide as an eighth; a hole as large as the image stays in it.
            assert abs(start + side / 2 - size / 2) <= size / 16


def _boxes(count=4000, size=32, **settings):
    rng = np.random.default_rng(0)
    return np.array([draw_hole(rng, HoleSettings(**settings), size)[1] for _ in range(count)])


def test_sides_are_uniform_between_min_and_max_and_independent():
    boxes = _boxes(min=10, max=16)
    for side in (2, 3):
        counts = np.bincount(boxes[:, side], minlength=17)[10:]
        expected = len(boxes) / 7
        assert ((counts - expected) ** 2 / expected).sum() < 22.5  # 99.9 %, 6 degrees
    assert abs(np.corrcoef(boxes[:, 2], boxes[:, 3])[0, 1]) < 5 / len(boxes) ** 0.5


def test_places_reach_all_four_edges_or_the_whole_middle_eighth():
    boxes = _boxes(min=10, max=10)
    assert set(boxes[:, 0]) == set(boxes[:, 1]) == set(range(23))
    boxes = _boxes(min=10, max=10, place="centre")
    # Centres from 14 to 18, that is 16 +- 2.
    assert set(boxes[:, 0]) == set(boxes[:, 1]) == set(range(9, 14))


def test_strokes_cover_part_of_their_box_and_differ():
    settings = HoleSettings(kind="strokes", min=48, max=48)
    rng = np.random.default_rng(0)
    masks = [draw_hole(rng, settings, 48)[0] for _ in range(200)]
    covered = np.array([mask.mean() for mask in masks])
    assert 0.2 < covered.mean() < 0.7
    assert covered.max() < 1
    assert len({mask.tobytes() for mask in masks}) == 200


@pytest.mark.parametrize("kind", ["box", "strokes"])
def test_the_same_random_numbers_give_the_same_hole(kind):
    settings = HoleSettings(kind=kind, min=5, max=20)
    first = draw_hole(np.random.default_rng(4), settings, 64)
    again = draw_hole(np.random.default_rng(4), settings, 64)
    assert (first[0] == again[0]).all() and (first[1] == again[1]).all()
