"""The tiny GAN with a fault that stands at chosen samples of a run, on whichever rank has them."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.model import takes
from tests.models import tiny

v1 = tf.compat.v1


class Poison(tiny.TinySettings):
    """`seeds` are the noise seeds of the samples with a fault; `value` replaces a loss, is added to
    a buffer, or multiplies a loss's gradient and leaves the loss as it is."""

    seeds: tuple[tuple[int, int], ...] = ()
    where: Literal["loss", "gradient", "buffer"] = "loss"
    loss: str = "completion"
    value: str = "nan"


@takes(Poison)
def build(batch, settings: Poison, training: bool) -> GanGraph:
    losses = tiny.losses(batch, settings.alpha, settings.norm, training)
    fault = tf.constant(False)
    for seed in settings.seeds:
        same = tf.reduce_all(tf.equal(batch["noise_seed"], seed), axis=1)
        fault |= tf.reduce_any(same)
    value = tf.where(fault, float(settings.value), 1.0)
    loss = losses[settings.loss]
    if settings.where == "loss":
        losses[settings.loss] = loss * value
    if settings.where == "gradient":
        losses[settings.loss] = multiply_gradient(loss, value)
    if settings.where == "buffer":
        with v1.variable_scope("generator"):
            moment = v1.get_variable("moment", initializer=1.0, trainable=False)
        moment.assign_add(value)
    return GanGraph({"generator": "generator", "discriminator": "discriminator"}, losses)


def multiply_gradient(loss: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def same(loss, value):
        return tf.identity(loss), lambda gradient: (gradient * value, None)

    return same(loss, value)
