"""The losses, against NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from hvd_gan.models.losses import discriminator_loss, generator_loss, hole_mse


def run(tensor):
    with tf.compat.v1.Session() as session:
        return session.run(tensor)


def test_the_hole_loss_looks_only_into_the_hole_and_weighs_images_alike():
    rng = np.random.default_rng(0)
    image, completed = rng.random((2, 2, 6, 6, 3)).astype(np.float32)
    mask = np.zeros((2, 6, 6, 1), np.float32)
    mask[0, :2, :2] = mask[1, 1:6, 1:6] = 1
    error = np.square(image - completed)
    expected = (error[0, :2, :2].mean() + error[1, 1:6, 1:6].mean()) / 2
    with tf.Graph().as_default():
        found = run(hole_mse(tf.constant(completed), tf.constant(image), tf.constant(mask)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_adversarial_losses_are_the_cross_entropies_of_the_probabilities():
    real, fake = np.array([[2.0], [-1.0]], np.float32), np.array([[0.5], [-3.0]], np.float32)

    def probability(logits):
        return 1 / (1 + np.exp(-logits))

    judged = -np.log(probability(real)).mean() - np.log(1 - probability(fake)).mean()
    with tf.Graph().as_default():
        found = run(discriminator_loss(tf.constant(real), tf.constant(fake)))
        np.testing.assert_allclose(found, judged, rtol=1e-6)
        np.testing.assert_allclose(
            run(generator_loss(tf.constant(fake))), -np.log(probability(fake)).mean(), rtol=1e-6
        )
