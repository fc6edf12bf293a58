"""Checksums tell any bits from any others, and equal ones from none."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from hvd_gan.engine.checksums import checksum

v1 = tf.compat.v1
RNG = np.random.default_rng(0)
TYPES = [
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("int8", "uint8", "int16", "uint16", "int32", "int64", "bool"),
]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (300, 2)]


class Summer:
    """Checksums of arrays of one type and shape, through one graph."""

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        with tf.Graph().as_default() as graph:
            self._value = v1.placeholder(dtype, shape)
            self._sum = checksum(self._value)
        self._session = v1.Session(graph=graph)
        self.like = tf.as_dtype(dtype).as_numpy_dtype

    def __call__(self, value: np.ndarray) -> int:
        return int(self._session.run(self._sum, {self._value: value}))


@pytest.fixture(scope="module")
def floats():
    return Summer("float32", (4, 6))


def random_of(dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_single_bit_counts(dtype, shape):
    total = Summer(dtype, shape)
    value = np.asarray(random_of(total.like, shape))
    first = total(value)
    assert total(value.copy()) == first
    bits = value.nbytes * (1 if dtype == "bool" else 8)
    for bit in RNG.choice(bits, min(bits, 12), replace=False):
        place, shift = (bit, 0) if dtype == "bool" else divmod(bit, 8)
        changed = value.copy()
        changed.reshape(-1).view(np.uint8)[place] ^= np.uint8(1 << shift)
        assert total(changed) != first


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(24)))
def test_elements_that_change_places_are_seen(floats, order):
    value = np.arange(24, dtype=np.float32)
    same = order == list(range(24))
    assert (floats(value[order].reshape(4, 6)) == floats(value.reshape(4, 6))) == same


def test_errors_that_cancel_in_a_plain_sum_are_seen(floats):
    value = np.ones((4, 6), np.float32)
    changed = value.copy()
    changed.view(np.int32)[0, 0] += 1
    changed.view(np.int32)[2, 3] -= 1
    assert int(value.view(np.int32).sum()) == int(changed.view(np.int32).sum())
    assert floats(value) != floats(changed)


def test_nans_are_told_apart_by_their_bits_and_so_are_zeros(floats):
    value = np.full((4, 6), np.nan, np.float32)
    assert floats(value) == floats(value.copy())
    other = value.copy()
    other.view(np.uint32)[1, 1] ^= 1
    assert np.isnan(other).all() and floats(value) != floats(other)
    assert floats(np.zeros((4, 6), np.float32)) != floats(np.full((4, 6), -0.0, np.float32))


def test_it_is_what_whole_numbers_of_any_size_give(floats):
    """In Python's integers, cut to 64 bits at the end."""
    value = RNG.normal(size=(4, 6)).astype(np.float32)
    row, column = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
    total = sum(
        int(value[i, j].view(np.int32)) * (2 * i * row + 1) * (2 * j * column + 1)
        for i in range(4)
        for j in range(6)
    )
    assert floats(value) % 2**64 == total % 2**64


def test_strings_have_one_too():
    total = Summer("string", (2,))
    assert total(np.array([b"a", b"b"])) != total(np.array([b"a", b"c"]))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_nothing_has_one(shape):
    assert Summer("float32", shape)(np.zeros(shape, np.float32)) == 0
