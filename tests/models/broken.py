"""Models that the engine has to refuse."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import tensorflow as tf

from tests.models import tiny


def depends_on_rank(batch, settings, training):
    """Builds a larger network on rank 1."""
    graph = tiny.build(batch, tiny.TinySettings(), training)
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
        tf.compat.v1.get_variable("generator/extra", (3,), trainable=False)
    return graph


class Misfit(tiny.Error):
    """Adds arrays that do not fit each other."""

    def measure(self, inputs, outputs):
        return np.ones(2) + np.ones(3)


def measured_by_misfit(batch, settings, training):
    """The tiny model, whose evaluation fails."""
    graph = tiny.build(batch, tiny.TinySettings(measured=True), training)
    return dataclasses.replace(graph, quality=Misfit())
