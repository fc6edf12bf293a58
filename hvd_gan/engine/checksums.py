"""Checksums of variables, computed on the device that holds them: exact, in any order of adding."""

from __future__ import annotations

import tensorflow as tf

# Odd numbers that spread the bits of a place over 64: 2^64 divided by the golden ratio, and the
# second prime of xxHash64, both as int64.
ROW = 0x9E3779B97F4A7C15 - 2**64
COLUMN = 0xC2B2AE3D27D4EB4F - 2**64
INTEGERS = {1: tf.uint8, 2: tf.uint16, 4: tf.int32, 8: tf.int64, 16: tf.int64}


def checksum(value: tf.Tensor) -> tf.Tensor:
    """A number that tells a tensor's bits from others: int64 scalar.

    The sum, modulo 2^64, of each element's bits times an odd number that depends on its place. A
    change of one element always shows, since an odd factor loses no bits; of several, including
    elements that have changed places, but for one chance in about 2^64. Two NaNs are equal where
    their bits are. Needs, for the time it takes, 16 bytes an element.
    """
    bits = _bits(value)
    columns = bits.shape[-1] if bits.shape.rank and bits.shape[-1] else 1
    bits = tf.reshape(bits, [-1, columns])
    by_row = tf.reduce_sum(bits * _odd(tf.constant(columns, tf.int64), COLUMN), axis=1)
    return tf.reduce_sum(by_row * _odd(tf.shape(bits, tf.int64)[0], ROW))


def _bits(value: tf.Tensor) -> tf.Tensor:
    """The elements' bits as int64; a string's hash."""
    if value.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(value, tf.int64.max)
    if value.dtype == tf.bool or value.dtype.is_integer:
        return tf.cast(value, tf.int64)
    return tf.cast(tf.bitcast(value, INTEGERS[value.dtype.size]), tf.int64)


def _odd(count: tf.Tensor, factor: int) -> tf.Tensor:
    """Distinct odd numbers for the places 0 to count - 1: int64 [count]."""
    return 2 * (tf.range(count, dtype=tf.int64) * factor) + 1
