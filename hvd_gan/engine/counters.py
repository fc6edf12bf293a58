"""Counters: how far a run has come. Saved with the weights, equal on all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Counters:
    """int64 scalars.

    run: steps of the whole run; the position in the sample order follows from it.
    stages: steps of each stage, over all its visits.
    visit: which of the schedule's visits training stands in, from 0.
    visit_steps: steps of that visit.
    moved_on: steps whose samples were drawn and that a rollback then took back: by so many the
        sample order is ahead of `run`.
    """

    run: tf.Variable
    stages: dict[str, tf.Variable]
    visit: tf.Variable
    visit_steps: tf.Variable
    moved_on: tf.Variable

    @property
    def all(self) -> tuple[tf.Variable, ...]:
        """Every counter."""
        return (self.run, *self.stages.values(), self.visit, self.visit_steps, self.moved_on)

    def advance(self, stage: str) -> tf.Operation:
        """Counts one step of a stage."""
        counters = (self.run, self.stages[stage], self.visit_steps)
        return tf.group(*(counter.assign_add(1) for counter in counters))

    def go_to(self, visit: tf.Tensor) -> tf.Operation:
        """Stands at the beginning of a visit."""
        return tf.group(self.visit.assign(visit), self.visit_steps.assign(0))


def make_counters(stages: Iterable[str]) -> Counters:
    """The counters of a schedule, at zero, under the scope `hvd_gan`."""
    with tf.compat.v1.variable_scope("hvd_gan", reuse=False):
        return Counters(
            scalar("steps"),
            {name: scalar(f"steps_{name}") for name in stages},
            scalar("visit"),
            scalar("visit_steps"),
            scalar("moved_on"),
        )


def scalar(name: str, start: int | float = 0) -> tf.Variable:
    """A scalar variable that nothing trains: int64 if it starts at an int, else float32."""
    return tf.compat.v1.get_variable(
        name,
        shape=(),
        dtype=tf.int64 if isinstance(start, int) else tf.float32,
        trainable=False,
        use_resource=True,
        initializer=tf.compat.v1.constant_initializer(start),
    )
