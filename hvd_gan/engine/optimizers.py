"""Optimizers by name, made for many ranks."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.config_stages import OptimizerSettings
from hvd_gan.engine.schedules import rate_factor

OPTIMIZERS = {
    "adam": tf.compat.v1.train.AdamOptimizer,
    "adadelta": tf.compat.v1.train.AdadeltaOptimizer,
    "rmsprop": tf.compat.v1.train.RMSPropOptimizer,
    "momentum": tf.compat.v1.train.MomentumOptimizer,
    "sgd": tf.compat.v1.train.GradientDescentOptimizer,
}
# Where TensorFlow's argument is not called what papers call it.
ARGUMENTS = {"rmsprop": {"rho": "decay"}}
COMPRESSIONS = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}


def make_optimizer(
    name: str, own: OptimizerSettings, settings: Settings, rate: tf.Tensor
) -> tf.compat.v1.train.Optimizer:
    """A `hvd.DistributedOptimizer`: its gradients are means over all ranks and passes.

    `name` is unique in the graph: Horovod names its collectives after it.
    """
    return hvd.DistributedOptimizer(
        plain_optimizer(name, own, rate),
        name=f"{name.replace('/', '_')}_distributed",
        compression=COMPRESSIONS[settings.compression],
        sparse_as_dense=settings.backward_passes_per_step > 1,
        backward_passes_per_step=settings.backward_passes_per_step,
        average_aggregated_gradients=True,
        # One group is reduced in one order; how single tensors are fused depends on their timing,
        # and over three or more ranks the order of a sum shows in its last bits.
        groups=1 if settings.deterministic else None,
    )


def plain_optimizer(
    name: str, own: OptimizerSettings, rate: tf.Tensor
) -> tf.compat.v1.train.Optimizer:
    """TensorFlow's optimizer of some settings, for one rank."""
    renamed = ARGUMENTS.get(own.name, {})
    arguments = {renamed.get(key, key): value for key, value in own.hyperparameters().items()}
    return OPTIMIZERS[own.name](learning_rate=rate, name=name.replace("/", "_"), **arguments)


def learning_rate(
    own: OptimizerSettings,
    settings: Settings,
    run_step: tf.Tensor,
    stage_step: tf.Tensor,
    stage_steps: int,
) -> tf.Tensor:
    """The stated rate, scaled for the global batch, warmed up over the run's first steps, and
    changed over its stage as its schedule says. Steps are counted from 0.
    """
    rate = tf.constant(own.learning_rate * settings.scaling.factor(settings.batch), tf.float32)
    if settings.scaling.warmup_steps:
        part = tf.cast(run_step + 1, tf.float32) / settings.scaling.warmup_steps
        rate *= tf.minimum(1.0, part)
    return rate * rate_factor(own.schedule, stage_step, stage_steps)
