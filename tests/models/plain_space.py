"""A made-up VAE-GAN whose encoder takes an image's mean color, so that all is known of it."""

from __future__ import annotations

import tensorflow as tf

from hvd_gan.engine.graph import GanGraph

v1 = tf.compat.v1


def build(batch, settings, training) -> GanGraph:
    """The latent point is the mean color times 3; decoding paints a whole image in it."""
    image = batch["image"]
    with v1.variable_scope("encoder"):
        scale = v1.get_variable("scale", (), initializer=v1.zeros_initializer())
    mean = scale * tf.reduce_mean(image, axis=[1, 2])
    latent = v1.placeholder_with_default(mean, [None, 3])
    size = image.shape[1]
    generated = latent[:, None, None, :] / 3.0 * tf.ones([1, size, size, 1])
    return GanGraph(
        {"encoder": "encoder"},
        {"loss": tf.reduce_mean(tf.square(mean))},
        inputs={"image": image, "latent": latent},
        outputs={"latent": mean, "generated": generated},
    )
