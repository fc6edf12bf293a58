"""Weights, rates and plateaus over the steps of a stage, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.config_stages import Plateau, Ramp, RateSchedule
from hvd_gan.engine.plateau import make_plateau_watch
from hvd_gan.engine.schedules import rate_factor, weight

v1 = tf.compat.v1


def over_steps(make, steps: list[int]) -> list[float]:
    """The values of a tensor that is made from a step counter."""
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, ())
        value = make(step)
        return [float(session.run(value, {step: number})) for number in steps]


def test_a_ramp_goes_from_start_to_end_and_stays_there():
    found = over_steps(lambda step: weight(Ramp(start=1, end=3, steps=4), step), [0, 1, 2, 4, 9])
    np.testing.assert_allclose(found, [1, 1.5, 2, 3, 3])
    assert over_steps(lambda step: weight(0.25, step), [0, 7]) == [0.25, 0.25]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"kind": "cosine"}, [1, 0.5, (1 + np.cos(0.75 * np.pi)) / 2, 0]),
        ({"kind": "cosine", "end": 0.2}, [1, 0.6, 0.2 + 0.4 * (1 + np.cos(0.75 * np.pi)), 0.2]),
        ({"kind": "piecewise", "factors": {75: 0.01, 50: 0.1}}, [1, 0.1, 0.01, 0.01]),
        ({"warmup_steps": 100}, [0.01, 0.51, 0.76, 1]),
    ],
)
def test_rates_follow_their_schedule(schedule, expected):
    settings = RateSchedule.model_validate(schedule)
    found = over_steps(lambda step: rate_factor(settings, step, steps=100), [0, 50, 75, 100])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_plateau_is_where_window_means_stop_falling_and_a_new_visit_forgets():
    settings = Plateau(loss="a", window=2, patience=2, min_delta=0.1)
    losses = [5, 3, 3, 1, 2, 1.9, 4, 0, 9, 9, 1, 1]
    #         mean 4  mean 2  1.95: stale  2: stale twice
    visits = [0] * 8 + [1] * 4
    with tf.Graph().as_default(), v1.Session() as session:
        loss, visit = v1.placeholder(tf.float32, ()), v1.placeholder(tf.int64, ())
        reached = make_plateau_watch("s", settings).observe(loss, visit)
        session.run(v1.global_variables_initializer())
        found = [
            bool(session.run(reached, {loss: value, visit: number}))
            for value, number in zip(losses, visits, strict=True)
        ]
    assert found == [False] * 7 + [True] + [False] * 4
