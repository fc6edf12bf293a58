"""Inference: the model built once more without training, in a graph and session of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hvd_gan.engine.graph import Arrays, Build, Tensors, build_apart


class Inference:
    """A model that maps named arrays to named arrays, with weights loaded by name.

    Batch norm uses its moving moments. Holds no collective, so one rank may run it alone.
    """

    def __init__(
        self,
        build: Build,
        model_settings: Any,
        like: Tensors,
        config: tf.compat.v1.ConfigProto | None = None,
    ) -> None:
        """Builds the model on placeholders shaped like a batch, of any length."""
        self._graph = tf.Graph()
        with self._graph.as_default():
            # Weights are loaded, not drawn; but deterministic runs build no random node unseeded.
            tf.compat.v1.set_random_seed(0)
            self._feeds = {name: _placeholder(name, tensor) for name, tensor in like.items()}
            self.gan = build_apart(build, self._feeds, model_settings, False)
            # A model may have more inputs than a batch has, such as a point of its latent space.
            self._feeds = {**self.gan.inputs, **self._feeds}
            variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
            self._values = {
                name: tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape)
                for name, variable in variables.items()
            }
            self._assign = tf.group(
                *(variable.assign(self._values[name]) for name, variable in variables.items())
            )
        self._session = tf.compat.v1.Session(graph=self._graph, config=config)

    def load(self, values: Arrays) -> None:
        """Sets every variable. Raises KeyError where a value is missing."""
        self._session.run(self._assign, {self._values[name]: values[name] for name in self._values})

    def run(self, fetches: Tensors, batch: Arrays) -> dict[str, np.ndarray]:
        """The values of some of the model's tensors on a batch."""
        feed = {self._feeds[name]: value for name, value in batch.items() if name in self._feeds}
        return self._session.run(dict(fetches), feed)


def _placeholder(name: str, like: tf.Tensor) -> tf.Tensor:
    shape = like.shape.as_list()
    # The batch's length may differ; a tensor of rank 1 or less is a constant of the data.
    shape = [None, *shape[1:]] if len(shape) > 1 else shape
    return tf.compat.v1.placeholder(like.dtype, shape, name=name)
