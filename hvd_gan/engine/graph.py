"""What a model returns, and which variables belong to which of its networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

Tensors = Mapping[str, tf.Tensor]
Arrays = Mapping[str, np.ndarray]


class Quality(Protocol):
    """How good a model's outputs are on images that it was not trained on."""

    def measure(self, batch: Arrays, outputs: Arrays) -> list[dict[str, float]]:
        """Named numbers for each image of a batch."""

    def summarize(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """What is reported, from the rows of all images over all ranks."""


@dataclass(frozen=True)
class RateFactor:
    """What a network's learning rate is multiplied by, as a function of how training goes.

    value: float32 scalar of this rank's batch; its mean over ranks is what `shape` maps to the
    factor, so that every rank applies the same.
    """

    value: tf.Tensor
    shape: Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class GanGraph:
    """A GAN, built in the current graph.

    networks: name to variable scope. A variable belongs to a network by exact scope.
    losses: name to scalar float tensor, the mean over this rank's images: gradients are averaged
        over ranks, so a mean over a rank's images becomes the mean over all of them.
    inputs, outputs: what inference feeds and fetches, by name.
    images: columns of the sample grid, in order: float [batch, height, width, channels] in [0, 1].
    quality: how outputs are measured on held-out data, if they are.
    rate_factors: by network; networks without one keep their rate.
    """

    networks: Mapping[str, str]
    losses: Tensors
    inputs: Tensors = field(default_factory=dict)
    outputs: Tensors = field(default_factory=dict)
    images: Tensors = field(default_factory=dict)
    quality: Quality | None = None
    rate_factors: Mapping[str, RateFactor] = field(default_factory=dict)

    def network_of(self, variable: tf.Variable) -> str | None:
        """The network whose scope holds the variable; the innermost where scopes nest."""
        name = variable.op.name
        holding = [
            network for network, scope in self.networks.items() if name.startswith(f"{scope}/")
        ]
        return max(holding, key=lambda network: len(self.networks[network]), default=None)

    def trainable(self, networks: tuple[str, ...]) -> list[tf.Variable]:
        """The trainable variables of some networks, in order of creation."""
        variables = tf.compat.v1.trainable_variables()
        return [variable for variable in variables if self.network_of(variable) in networks]


# build(batch, settings, training): `batch` holds tensors of static shape, `settings` are the
# model's own, `training` chooses between batch and moving statistics.
Build = Callable[[Tensors, Any, bool], GanGraph]


def build_apart(build: Build, batch: Tensors, settings: Any, training: bool) -> GanGraph:
    """Builds a model in the current graph, in a thread of its own.

    Keras 3 numbers layers without names on and on in a thread (Keras 2 in a graph): a second graph
    of the same model would otherwise have other names than the first.
    """
    graph = tf.compat.v1.get_default_graph()

    def run() -> GanGraph:
        with graph.as_default():
            return build(batch, settings, training)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
