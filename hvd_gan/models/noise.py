"""Random numbers inside a model that do not depend on how images are spread over ranks."""

from __future__ import annotations

import tensorflow as tf


def normal_noise(seeds: tf.Tensor, points: int, size: int) -> tf.Tensor:
    """Standard normal numbers for each image, a function of its seed alone.

    seeds: int32 [batch, 2], the batch's `noise_seed`; returns float32 [batch, points, size].
    TensorFlow's stateful random operations would give the ranks numbers that depend on how many
    there are, and a resumed run others than the one that was stopped. Drawn on the CPU, by one
    named algorithm (Philox), so that all devices agree.
    """

    def draw(seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_normal([points, size], seed, alg="philox")

    with tf.device("/cpu:0"):
        noise = tf.map_fn(draw, seeds, fn_output_signature=tf.float32)
    return tf.ensure_shape(noise, [seeds.shape[0], points, size])
