"""The layers' sizes, and what batch norm does with its moments."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.models.layers import DECAY, EPSILON, batch_norm, conv, deconv, dense

v1 = tf.compat.v1


def test_layers_have_the_sizes_that_their_arguments_say():
    with tf.Graph().as_default():
        x = tf.ones([2, 12, 12, 5])
        assert conv(x, "a", 7, 3).shape.as_list() == [2, 12, 12, 7]
        assert conv(x, "b", 7, 5, stride=2).shape.as_list() == [2, 6, 6, 7]
        assert conv(x, "c", 7, 3, dilation=4).shape.as_list() == [2, 12, 12, 7]
        assert deconv(x, "d", 7, 4, 2).shape.as_list() == [2, 24, 24, 7]
        assert dense(x, "e", 9).shape.as_list() == [2, 9]


def test_batch_norm_normalises_with_the_batch_and_moves_its_moments_in_order():
    rng = np.random.default_rng(0)
    first, second = rng.normal(2, 3, (2, 8, 4)).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
            y = batch_norm(tf.constant(first), "norm", "plain", training=True)
            batch_norm(tf.constant(second), "norm", "plain", training=True)
            averages = [v for v in v1.global_variables() if "moving" in v.name]
        session.run(v1.global_variables_initializer())
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        normalised = session.run([y, *updates])[0]
        mean, variance = session.run(averages)
    expected = (first - first.mean(0)) / np.sqrt(first.var(0) + EPSILON)
    np.testing.assert_allclose(normalised, expected, atol=1e-5)
    # Two passes move the averages twice, one after the other.
    for found, start, moment in ((mean, 0.0, np.mean), (variance, 1.0, np.var)):
        once = DECAY * start + (1 - DECAY) * moment(first, 0)
        np.testing.assert_allclose(found, DECAY * once + (1 - DECAY) * moment(second, 0), rtol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "sync"])
def test_outside_training_batch_norm_uses_its_averages(kind):
    x = np.random.default_rng(0).normal(2, 3, (8, 4)).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        y = batch_norm(tf.constant(x), "norm", kind, training=False)
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(y), x / np.sqrt(1 + EPSILON), rtol=1e-6)
        assert not v1.get_collection(v1.GraphKeys.UPDATE_OPS)
