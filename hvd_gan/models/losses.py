"""The losses that the models share, each a scalar mean over the batch's images."""

from __future__ import annotations

import tensorflow as tf


def hole_mse(completed: tf.Tensor, image: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean squared error over the pixels of each image's hole, meaned over images.

    completed, image: float [batch, height, width, channels]; mask: float [batch, height, width, 1],
    1 inside the hole. Equation 2 of Iizuka et al. 2017, divided by the hole's number of values, so
    that large and small holes weigh the same.
    """
    error = tf.reduce_sum(tf.square(mask * (completed - image)), axis=[1, 2, 3])
    values = tf.reduce_sum(mask, axis=[1, 2, 3]) * float(image.shape[-1])
    return tf.reduce_mean(error / values)


def discriminator_loss(real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
    """-log D(real) - log(1 - D(fake)) (Goodfellow et al. 2014, equation 1), on logits."""
    return _cross_entropy(real, 1.0) + _cross_entropy(fake, 0.0)


def generator_loss(fake: tf.Tensor) -> tf.Tensor:
    """-log D(fake), on logits: the loss that does not saturate (Goodfellow et al. 2014, section 3).

    It has the fixed point of log(1 - D(fake)) and a gradient while the discriminator is ahead.
    """
    return _cross_entropy(fake, 1.0)


def _cross_entropy(logits: tf.Tensor, label: float) -> tf.Tensor:
    labels = tf.fill(tf.shape(logits), tf.constant(label, logits.dtype))
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
