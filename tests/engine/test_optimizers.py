"""The optimizers by name do what their papers say."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.config_stages import OptimizerSettings
from hvd_gan.engine.optimizers import OPTIMIZERS, plain_optimizer

GRADIENTS = [0.5, -1.0, 2.0]
RATE = 0.1


def adam(b1=0.5, b2=0.999, e=1e-8):
    m = v = x = 0.0
    for t, g in enumerate(GRADIENTS, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        x -= RATE * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + e)
    return x


def adadelta(rho=0.95, e=1e-6):
    square = steps = x = 0.0
    for g in GRADIENTS:
        square = rho * square + (1 - rho) * g * g
        step = -np.sqrt(steps + e) / np.sqrt(square + e) * g
        steps = rho * steps + (1 - rho) * step * step
        x += RATE * step
    return x


def rmsprop(rho=0.9, e=1e-10):
    # TensorFlow's average of squares starts at 1.
    square, x = 1.0, 0.0
    for g in GRADIENTS:
        square = rho * square + (1 - rho) * g * g
        x -= RATE * g / np.sqrt(square + e)
    return x


def momentum(mu=0.9):
    speed = x = 0.0
    for g in GRADIENTS:
        speed = mu * speed + g
        x -= RATE * speed
    return x


EXPECTED = {
    "adam": adam(),
    "adadelta": adadelta(),
    "rmsprop": rmsprop(),
    "momentum": momentum(),
    "sgd": -RATE * sum(GRADIENTS),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_steps_are_those_of_the_formula(name):
    settings = OptimizerSettings(name=name, learning_rate=RATE)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=0.0)
        gradient = tf.compat.v1.placeholder(tf.float32, ())
        optimizer = plain_optimizer("stage/update", settings, tf.constant(RATE))
        step = optimizer.apply_gradients([(gradient, x)])
        session.run(tf.compat.v1.global_variables_initializer())
        for value in GRADIENTS:
            session.run(step, {gradient: value})
        assert session.run(x) == pytest.approx(EXPECTED[name], rel=1e-4)
