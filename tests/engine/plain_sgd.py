"""The oracle: staged SGD written out in NumPy, over gradients from `tf.gradients`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from hvd_gan.engine.graph import Build

v1 = tf.compat.v1
# By stage: its steps, and the loss and scopes of each update.
Moves = Mapping[str, tuple[int, Sequence[tuple[str, tuple[str, ...]]]]]


@dataclass(frozen=True)
class Expected:
    """Weights after each stage; each step's losses and gradient norms, by the losses' names."""

    weights: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    losses: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    norms: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def train_plainly(
    build: Build,
    moves: Moves,
    batches: Iterator[Mapping[str, np.ndarray]],
    rate: Callable[[str], float],
    clip: float = np.inf,
) -> Expected:
    """Trains a model's stages, a batch a step. `rate` is the learning rate of a loss."""
    expected = Expected()
    batch = next(batches)
    with tf.Graph().as_default(), v1.Session() as session:
        feeds = {
            name: v1.placeholder(tf.float32, value.shape, name) for name, value in batch.items()
        }
        losses = build(feeds, {}, True).losses
        variables = {v.op.name: v for v in v1.trainable_variables()}
        gradients = {
            loss: tf.gradients(losses[loss], list(variables.values()))
            for _, updates in moves.values()
            for loss, _ in updates
        }
        session.run(v1.global_variables_initializer())
        weights = session.run(variables)
        for stage, (steps, updates) in moves.items():
            expected.losses[stage], expected.norms[stage] = [], []
            for _ in range(steps):
                _set(session, variables, weights)
                feed = {feeds[name]: value for name, value in batch.items()}
                fetched = {loss: (losses[loss], _fetchable(gradients[loss])) for loss, _ in updates}
                found = session.run(fetched, feed)
                expected.losses[stage].append({loss: found[loss][0] for loss, _ in updates})
                norms = {}
                for loss, scopes in updates:
                    changes = {
                        name: _dense(gradient, weights[name])
                        for name, gradient in zip(weights, found[loss][1], strict=True)
                        if name.split("/")[0] in scopes
                    }
                    norms[loss] = np.sqrt(sum(np.sum(change**2) for change in changes.values()))
                    scale = rate(loss) * min(1, clip / norms[loss])
                    weights |= {name: weights[name] - scale * changes[name] for name in changes}
                expected.norms[stage].append(norms)
                batch = next(batches)
            expected.weights[stage] = dict(weights)
    return expected


def _set(session, variables, values) -> None:
    starts = {name: variable.initializer.inputs[1] for name, variable in variables.items()}
    session.run(
        [variable.initializer for variable in variables.values()],
        {starts[name]: value for name, value in values.items()},
    )


def _fetchable(gradients):
    """What `session.run` takes: it has nothing for None."""
    return [() if gradient is None else gradient for gradient in gradients]


def _dense(gradient, like: np.ndarray) -> np.ndarray:
    if not hasattr(gradient, "indices"):
        return np.zeros_like(like) if isinstance(gradient, tuple) else gradient
    dense = np.zeros_like(like)
    np.add.at(dense, gradient.indices, gradient.values)
    return dense
