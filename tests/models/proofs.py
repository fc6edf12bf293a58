"""A GAN with everything that staged training stumbles over, small enough to check by hand.

Its generator has a branch that only the joint loss reaches. Its completion loss passes through the
discriminator and through a network with no trainable variable. Both networks look up one embedding,
whose gradient is sparse. It counts its passes in an integer.
"""

from __future__ import annotations

import tensorflow as tf

from hvd_gan.engine.graph import GanGraph
from tests.models.tiny import start, variable

v1 = tf.compat.v1
WIDTH = 12
ROWS = 5
NETWORKS = {name: name for name in ("generator", "discriminator", "embedding", "fixed")}


def small(images: tf.Tensor) -> tf.Tensor:
    """Means of 16x16 pixels of 32x32 images: [batch, 12]."""
    return tf.reshape(tf.nn.avg_pool2d(images, 16, 16, "SAME"), [-1, WIDTH])


def look_up(images: tf.Tensor) -> tf.Tensor:
    """A row of the embedding by the pixel in the middle, [batch, 12]. The last row is never used,
    and among five images two share a row."""
    rows = tf.cast(images[:, 16, 16, 0] * (ROWS - 1.01), tf.int32)
    with v1.variable_scope("embedding", reuse=v1.AUTO_REUSE):
        return tf.gather(variable("table", (ROWS, WIDTH)), rows)


def critic(x: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The discriminator's hidden features [batch, 4] and logits [batch, 1]."""
    with v1.variable_scope("discriminator", reuse=v1.AUTO_REUSE):
        hidden = tf.tanh((x + label) @ variable("in", (WIDTH, 4)))
        return hidden, hidden @ variable("out", (4, 1))


def distance(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(one - other))


def everything(batch, settings, training) -> GanGraph:
    """Losses `completion`, `discriminator` and `joint`, and `count`, the passes so far."""
    image, mask = batch["image"], batch["mask"]
    holed, real, label = small(image * (1 - mask)), small(image), look_up(image)
    with v1.variable_scope("generator"):
        passes = v1.get_variable(
            "passes", (), tf.int32, initializer=v1.zeros_initializer(), trainable=False
        )
        passes.assign_add(1)
        coarse = tf.tanh((holed + label) @ variable("coarse", (WIDTH, WIDTH)))
        fine = coarse + holed @ variable("branch", (WIDTH, WIDTH))
    with v1.variable_scope("fixed"):
        projection = v1.get_variable(
            "projection",
            initializer=tf.constant(start("fixed/projection", (WIDTH, 3))),
            trainable=False,
        )
    real_features, real_logits = critic(real, label)
    coarse_features, _ = critic(coarse, label)
    _, fake_logits = critic(fine, label)
    completion = (
        distance(coarse, real)
        + distance(coarse_features, real_features)
        + distance(coarse @ projection, real @ projection)
    )
    return GanGraph(
        NETWORKS,
        {
            "completion": completion,
            "discriminator": tf.reduce_mean(
                tf.nn.softplus(-real_logits) + tf.nn.softplus(fake_logits)
            ),
            "joint": completion + tf.reduce_mean(tf.nn.softplus(-fake_logits)),
        },
    )


def integer_weight(batch, settings, training) -> GanGraph:
    """`get_variable` makes integers trainable too unless it is told not to."""
    with v1.variable_scope("generator"):
        step = v1.get_variable("step", (), tf.int32, initializer=v1.zeros_initializer())
        completed = small(batch["image"]) @ variable("w", (WIDTH, WIDTH))
    loss = distance(completed, 0.0) + 0.0 * tf.cast(step, tf.float32)
    return GanGraph({"generator": "generator"}, {"completion": loss})
