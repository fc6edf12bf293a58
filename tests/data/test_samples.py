"""Sample k is a function of (seed, k), also where images cannot be read."""

import concurrent.futures

import numpy as np
import pytest

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data import order
from hvd_gan.data.samples import Sampler, most_tries
from hvd_gan.data.source import open_source


def _same(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))


def test_a_sample_has_the_promised_types(numbered, tiny):
    image, mask, box, real_box, noise_seed = Sampler(numbered(5), tiny, seed=1).sample(3)
    assert (image.dtype, image.shape) == (np.uint8, (8, 8, 3))
    assert (mask.dtype, mask.shape) == (np.float32, (8, 8, 1))
    assert (box.dtype, box.shape) == (np.int32, (4,))
    assert (real_box.dtype, real_box.shape) == (np.int32, (4,))
    assert not np.array_equal(box, real_box)
    assert (noise_seed.dtype, noise_seed.shape) == (np.int32, (2,)) and noise_seed.min() >= 0


@pytest.mark.parametrize("held_out", [False, True])
def test_every_sample_has_a_noise_seed_of_its_own(numbered, tiny, held_out):
    sampler = Sampler(numbered(5), tiny, seed=1, held_out=held_out)
    assert len({tuple(sampler.sample(k).noise_seed) for k in range(200)}) == 200


@pytest.mark.parametrize("held_out", [False, True])
def test_a_sample_does_not_depend_on_what_was_made_before_or_beside_it(held_out):
    settings = DataSettings(source="photos", short_side=(64, 128))
    one, other = (
        Sampler(
            open_source(settings, "held_out" if held_out else "train"),
            settings,
            seed=4,
            held_out=held_out,
        )
        for _ in range(2)
    )
    expected = [one.sample(k) for k in range(40)]
    assert all(_same(other.sample(k), expected[k]) for k in reversed(range(40)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(other.sample, range(40))
        assert all(_same(a, b) for a, b in zip(found, expected, strict=True))


def test_another_seed_gives_other_samples(numbered, tiny, which):
    orders = [
        which(np.array([Sampler(numbered(50), tiny, seed=seed).sample(k).image for k in range(50)]))
        for seed in (1, 2)
    ]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


def test_an_image_returns_in_the_next_epoch_with_another_hole(numbered, tiny):
    sampler = Sampler(numbered(1), tiny, seed=1)
    boxes = {tuple(sampler.sample(k).box) for k in range(30)}
    assert len(boxes) > 20


def test_an_unreadable_image_is_replaced_by_one_of_the_same_epoch(numbered, tiny, which):
    whole = Sampler(numbered(20), tiny, seed=1)
    holey = Sampler(numbered(20, broken={3, 7}), tiny, seed=1)
    for k in range(60):
        one, other = whole.sample(k), holey.sample(k)
        before, after = which(one.image)[0], which(other.image)[0]
        assert (after not in {3, 7}) if before in {3, 7} else after == before
        assert (one.mask == other.mask).all()
    assert holey.skipped(before=60) == {
        "number 3": "made to be broken",
        "number 7": "made to be broken",
    }
    assert whole.skipped(before=60) == {}


def test_a_single_readable_image_is_found(numbered, tiny, which):
    sampler = Sampler(numbered(30, broken=set(range(30)) - {11}), tiny, seed=1)
    assert [which(sampler.sample(k).image)[0] for k in range(30)] == [11] * 30


def test_when_nothing_can_be_read_the_first_finding_is_told(numbered, tiny):
    sampler = Sampler(numbered(3, broken=range(3)), tiny, seed=1)
    with pytest.raises(ConfigError, match=r"none of its 3 images.*number \d: made to be broken"):
        sampler.sample(0)
    sampler = Sampler(numbered(1000, broken=range(1000)), tiny, seed=1)
    with pytest.raises(ConfigError, match="none of 32 images in a row can be read"):
        sampler.sample(0)
    assert len(sampler.skipped(before=1)) == 32


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((8, 8, 3)),
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
    ],
)
def test_a_source_that_breaks_its_promise_is_told(numbered, tiny, wrong):
    source = numbered(3)
    source.read = lambda _: wrong
    with pytest.raises(ConfigError, match=r"number \d is .* uint8 \[height, width, 3\]"):
        Sampler(source, tiny, seed=1).sample(0)


def test_an_empty_source_is_refused(numbered, tiny):
    with pytest.raises(ConfigError, match="no held-out images"):
        Sampler(numbered(0), tiny, seed=1, held_out=True)


def test_where_many_may_be_unreadable_more_are_tried(numbered, tiny, which):
    some = tiny.model_copy(update={"max_unreadable": 1.0})
    source = numbered(1000, broken=set(range(1000)) - {500})
    assert which(Sampler(source, some, seed=1).sample(0).image) == [500]
    assert most_tries(0) == most_tries(0.01) == 32
    for share in (0.5, 0.9, 0.99):
        assert share ** most_tries(share) < 1e-12 < share ** (most_tries(share) - 2)


def test_what_was_met_ahead_does_not_count_yet(numbered, tiny):
    source = numbered(8, broken={6})
    places = [k for k in range(8) if order.image_at(k, count=8, seed=1) == 6]
    for ks in (range(8), reversed(range(8))):
        sampler = Sampler(source, tiny, seed=1)
        for k in ks:
            sampler.sample(k)
        assert sampler.skipped(before=places[0]) == {}
        assert sampler.skipped(before=places[0] + 1) == {"number 6": "made to be broken"}
