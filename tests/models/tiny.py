"""A GAN small enough to train in milliseconds, with closed-form initial weights."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from hvd_gan.config_base import Strict
from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.model import takes
from hvd_gan.models.layers import batch_norm

HIDDEN = 6


class TinySettings(Strict):
    """`norm` puts a batch norm into the generator; `alpha` weighs the adversarial loss. `measured`
    gives it something to evaluate.
    """

    norm: str = "off"
    alpha: float = 0.1
    explode_at: int = 0
    measured: bool = False


class Error:
    """The mean squared error of what the generator makes of an image, pixel means of 4x4."""

    def measure(self, batch, outputs) -> list[dict[str, float]]:
        small = batch["image"].reshape(-1, 8, 4, 8, 4, 3).mean(axis=(2, 4))
        return [
            {"error": float(error)}
            for error in ((small - outputs["completed"]) ** 2).mean((1, 2, 3))
        ]

    def summarize(self, rows) -> dict[str, float]:
        return {"error": sum(row["error"] for row in rows) / len(rows)}


def start(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The initial value of a variable, the same in every program."""
    seed = sum(ord(letter) * (place + 1) for place, letter in enumerate(name))
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def variable(name: str, shape: tuple[int, ...]) -> tf.Variable:
    full = f"{tf.compat.v1.get_variable_scope().name}/{name}"
    value = start(full, shape)
    return tf.compat.v1.get_variable(
        name, shape, initializer=tf.compat.v1.constant_initializer(value)
    )


def generator(batch: dict, norm: str, training: bool) -> tf.Tensor:
    """Completes from 8x8 means of the holed image: [batch, 8, 8, 3] in [0, 1]."""
    small = tf.nn.avg_pool2d(batch["image"] * (1 - batch["mask"]), 4, 4, "SAME")
    flat = tf.reshape(small, [-1, 192])
    hidden = tf.matmul(flat, variable("in", (192, HIDDEN))) + variable("bias", (HIDDEN,))
    hidden = tf.tanh(batch_norm(hidden, "norm", norm, training))
    return tf.reshape(tf.sigmoid(tf.matmul(hidden, variable("out", (HIDDEN, 192)))), [-1, 8, 8, 3])


def discriminator(images: tf.Tensor) -> tf.Tensor:
    """Logits, [batch, 1]."""
    flat = tf.reshape(images, [-1, 192])
    hidden = tf.tanh(tf.matmul(flat, variable("in", (192, HIDDEN))))
    return tf.matmul(hidden, variable("out", (HIDDEN, 1)))


def losses(batch: dict, alpha: float, norm: str = "off", training: bool = True) -> dict:
    """Completion, discriminator and joint loss, each a mean over the batch, and what the generator
    has `completed`.
    """
    real = tf.nn.avg_pool2d(batch["image"], 4, 4, "SAME")
    with tf.compat.v1.variable_scope("generator", reuse=tf.compat.v1.AUTO_REUSE):
        completed = generator(batch, norm, training)
    with tf.compat.v1.variable_scope("discriminator", reuse=tf.compat.v1.AUTO_REUSE):
        real_logits, fake_logits = discriminator(real), discriminator(completed)
    completion = tf.reduce_mean(tf.square(completed - real))
    return {
        "completed": completed,
        "completion": completion,
        "discriminator": tf.reduce_mean(tf.nn.softplus(-real_logits) + tf.nn.softplus(fake_logits)),
        "joint": completion + alpha * tf.reduce_mean(tf.nn.softplus(-fake_logits)),
    }


@takes(TinySettings)
def build(batch, settings: TinySettings, training: bool) -> GanGraph:
    named = losses(batch, settings.alpha, settings.norm, training)
    completed = named.pop("completed")
    if settings.explode_at:
        # Not a number, from the given pass of the model on.
        passes = tf.compat.v1.get_variable(
            "generator/passes",
            (),
            trainable=False,
            use_resource=True,
            initializer=tf.compat.v1.zeros_initializer(),
        )
        count = passes.assign_add(1.0)
        named["completion"] += tf.where(count >= settings.explode_at, float("nan"), 0.0)
    return GanGraph(
        {"generator": "generator", "discriminator": "discriminator"},
        named,
        inputs=batch if settings.measured else {},
        outputs={"completed": completed} if settings.measured else {},
        quality=Error() if settings.measured else None,
    )
