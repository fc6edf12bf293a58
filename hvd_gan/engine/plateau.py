"""Ends a stage early when its loss has stopped falling."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.config_stages import Plateau
from hvd_gan.engine.counters import scalar

NEVER = 3.0e38


@dataclass(frozen=True)
class PlateauWatch:
    """Watches a loss over windows of steps.

    What it remembers are variables, saved with the weights, so that a resumed run stops at the
    step at which it would have stopped. They follow from losses averaged over ranks: all agree.
    """

    settings: Plateau
    total: tf.Variable
    best: tf.Variable
    seen: tf.Variable
    stale: tf.Variable
    visit: tf.Variable

    def observe(self, loss: tf.Tensor, visit: tf.Tensor) -> tf.Tensor:
        """Takes in a step's loss and returns whether the stage has reached its plateau: bool.

        visit: the schedule's visit that the step belongs to; at a new one all is forgotten.
        """
        zero = tf.zeros([], tf.int64)
        new = tf.not_equal(visit, self.visit)
        total = tf.where(new, 0.0, self.total) + loss
        best = tf.where(new, NEVER, self.best)
        seen = tf.where(new, zero, self.seen) + 1
        stale = tf.where(new, zero, self.stale)
        full = tf.equal(seen % self.settings.window, 0)
        mean = total / self.settings.window
        improved = mean < best - self.settings.min_delta
        stale = tf.where(full, tf.where(improved, zero, stale + 1), stale)
        memory = (self.total, self.best, self.seen, self.stale, self.visit)
        total, best = tf.where(full, 0.0, total), tf.where(full & improved, mean, best)
        # All is read before any is written.
        with tf.control_dependencies([total, best, stale]):
            values = (total, best, seen, stale, visit)
            assigned = [
                variable.assign(value) for variable, value in zip(memory, values, strict=True)
            ]
        with tf.control_dependencies(assigned):
            return tf.greater_equal(stale, self.settings.patience)


def make_plateau_watch(stage: str, settings: Plateau) -> PlateauWatch:
    """The watch of a stage, with its variables."""

    with tf.compat.v1.variable_scope(f"hvd_gan/plateau_{stage}", reuse=False):
        return PlateauWatch(
            settings,
            total=scalar("total", 0.0),
            best=scalar("best", NEVER),
            seen=scalar("seen", 0),
            stale=scalar("stale", 0),
            visit=scalar("visit", -1),
        )
