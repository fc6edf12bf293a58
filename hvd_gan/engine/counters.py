"""Counters: how many steps the run and each stage have done. Saved with the weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Counters:
    """int64 scalars. `run` counts the steps of all stages; the sample position follows from it."""

    run: tf.Variable
    stages: dict[str, tf.Variable]

    def advance(self, stage: str) -> tf.Operation:
        """Counts one step of a stage."""
        return tf.group(self.run.assign_add(1), self.stages[stage].assign_add(1))


def make_counters(stages: Iterable[str]) -> Counters:
    """The counters of a schedule, at zero, under the scope `hvd_gan`."""

    def counter(name: str) -> tf.Variable:
        return tf.compat.v1.get_variable(
            name,
            shape=(),
            dtype=tf.int64,
            trainable=False,
            use_resource=True,
            initializer=tf.compat.v1.zeros_initializer(),
        )

    with tf.compat.v1.variable_scope("hvd_gan", reuse=False):
        return Counters(counter("steps"), {name: counter(f"steps_{name}") for name in stages})
