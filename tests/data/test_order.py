"""Order is a function of (seed, position): permutations, and independent random numbers."""

import collections
import itertools

import hypothesis
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hvd_gan.data import order

SEEDS = st.integers(0, 2**31 - 1)


@hypothesis.settings(deadline=None)
@given(count=st.integers(1, 200), seed=SEEDS, epoch=st.integers(0, 2**40))
def test_every_epoch_is_a_permutation(count, seed, epoch):
    found = [order.shuffled(index, count, seed, epoch) for index in range(count)]
    assert sorted(found) == list(range(count))


@hypothesis.settings(deadline=None)
@given(count=st.integers(1, 50), seed=SEEDS, held_out=st.booleans())
def test_positions_go_through_all_images_epoch_by_epoch(count, seed, held_out):
    found = [order.image_at(k, count=count, seed=seed, held_out=held_out) for k in range(3 * count)]
    for start in range(0, 3 * count, count):
        assert sorted(found[start : start + count]) == list(range(count))


def test_held_out_images_come_in_their_own_order():
    found = [order.image_at(k, count=3, seed=9, held_out=True) for k in range(7)]
    assert found == [0, 1, 2, 0, 1, 2, 0]


def test_substitutes_are_all_the_other_images_of_the_epoch():
    for held_out in (False, True):
        found = [
            order.image_at(25, count=10, seed=1, held_out=held_out, tries=t) for t in range(10)
        ]
        assert sorted(found) == list(range(10))


def test_all_orders_of_four_images_are_about_equally_frequent():
    epochs = 4800
    orders = collections.Counter(
        tuple(order.shuffled(index, 4, 3, epoch) for index in range(4)) for epoch in range(epochs)
    )
    assert set(orders) == set(itertools.permutations(range(4)))
    expected = epochs / 24
    chi_squared = sum((seen - expected) ** 2 / expected for seen in orders.values())
    assert chi_squared < 49.7  # the 99.9 % quantile for 23 degrees of freedom


def test_seeds_and_epochs_that_differ_in_one_high_bit_give_other_orders():
    def first(seed, epoch):
        return [order.shuffled(index, 1000, seed, epoch) for index in range(20)]

    orders = [first(1 + 2**bit, 0) for bit in range(1, 31)]
    orders += [first(1, 2**bit) for bit in range(31)]
    assert len({tuple(found) for found in orders}) == len(orders)


def test_successive_epochs_and_neighbours_are_uncorrelated():
    for count in (1000, 60_000, 10_000_000):
        places = range(0, count, max(1, count // 4000))
        now, later, after = (
            np.array([order.shuffled((k + shift) % count, count, 1, epoch) for k in places])
            for shift, epoch in ((0, 0), (0, 1), (1, 0))
        )
        # Five standard deviations of the correlation of so many independent pairs.
        bound = 5 / len(places) ** 0.5
        assert abs(np.corrcoef(now, later)[0, 1]) < bound
        assert abs(np.corrcoef(now, after)[0, 1]) < bound


@hypothesis.settings(deadline=None)
@given(seed=SEEDS, position=st.integers(0, 2**62))
def test_random_numbers_depend_on_seed_and_position_alone(seed, position):
    found = order.generator(seed, position).random(4)
    assert (found == order.generator(seed, position).random(4)).all()
    assert (found != order.generator(seed, position + 1).random(4)).all()
    assert (found != order.generator(seed + 1, position).random(4)).all()


def test_random_numbers_of_successive_positions_are_uniform_and_uncorrelated():
    found = np.array([order.generator(1, k).random() for k in range(4000)])
    counts = np.histogram(found, 10, (0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 27.9  # 99.9 %, 9 degrees of freedom
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 5 / 4000**0.5
