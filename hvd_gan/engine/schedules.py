"""What changes over a stage: weights and learning rates, as tensors of its step counter."""

from __future__ import annotations

import math

import tensorflow as tf

from hvd_gan.config_stages import Ramp, RateSchedule
from hvd_gan.engine.stages import Update


def total_loss(update: Update, step: tf.Tensor) -> tf.Tensor:
    """The weighted sum of an update's losses at a step of its stage, counted from 0."""
    return tf.add_n([weight(term.weight, step) * term.loss for term in update.terms])


def weight(of: float | Ramp, step: tf.Tensor) -> tf.Tensor:
    """A loss's weight at a step of its stage: float32 scalar."""
    if not isinstance(of, Ramp):
        return tf.constant(of, tf.float32)
    part = tf.minimum(1.0, tf.cast(step, tf.float32) / of.steps)
    return of.start + (of.end - of.start) * part


def rate_factor(schedule: RateSchedule, step: tf.Tensor, steps: int) -> tf.Tensor:
    """What a stage of `steps` steps multiplies a learning rate by at a step, counted from 0."""
    step = tf.cast(step, tf.float32)
    factor = tf.constant(1.0)
    if schedule.kind == "cosine":
        part = tf.minimum(1.0, step / steps)
        factor = schedule.end + (1 - schedule.end) * 0.5 * (1 + tf.cos(math.pi * part))
    for boundary, value in sorted(schedule.factors.items()):
        factor = tf.where(step >= boundary, value, factor)
    if schedule.warmup_steps:
        factor *= tf.minimum(1.0, (step + 1) / schedule.warmup_steps)
    return factor
