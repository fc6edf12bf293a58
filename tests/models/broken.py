"""Models that the engine has to refuse."""

from __future__ import annotations

import os

import tensorflow as tf

from tests.models import tiny


def depends_on_rank(batch, settings, training):
    """Builds a larger network on rank 1."""
    graph = tiny.build(batch, tiny.TinySettings(), training)
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
        tf.compat.v1.get_variable("generator/extra", (3,), trainable=False)
    return graph
