"""A GAN of Keras layers that have neither names nor seeds."""

from __future__ import annotations

import tensorflow as tf

from hvd_gan.engine.graph import GanGraph


def build(batch, settings, training):
    image = tf.nn.avg_pool2d(batch["image"], 4, 4, "SAME")
    flat = tf.reshape(image, [-1, 192])
    with tf.compat.v1.variable_scope("generator"), tf.name_scope("generator"):
        hidden = tf.keras.layers.Dense(6, activation="tanh")(flat)
        hidden = tf.keras.layers.Dropout(0.5)(hidden, training=training)
        completed = tf.keras.layers.Dense(192, activation="sigmoid")(hidden)
    with tf.compat.v1.variable_scope("discriminator"), tf.name_scope("discriminator"):
        judge = tf.keras.layers.Dense(1)
        real, fake = judge(flat), judge(completed)
    completion = tf.reduce_mean(tf.square(completed - flat))
    return GanGraph(
        networks={"generator": "generator", "discriminator": "discriminator"},
        losses={
            "completion": completion,
            "discriminator": tf.reduce_mean(tf.nn.softplus(-real) + tf.nn.softplus(fake)),
            "joint": completion + 0.1 * tf.reduce_mean(tf.nn.softplus(-fake)),
        },
    )
