"""The losses of a VAE-GAN (Larsen et al. 2016, algorithm 1), and its balance of learning rates.

Each loss is a scalar mean over the batch's images.
"""

from __future__ import annotations

import tensorflow as tf

from hvd_gan.engine.graph import RateFactor

SHIFT = -0.5
STEEPNESS = 15.0


def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """L_prior: KL(N(mean, variance) || N(0, 1)) in nats, summed over latent dimensions.

    1/2 sum(mean^2 + variance - log variance - 1) (Kingma and Welling 2014, appendix B).
    mean, log_variance: float [batch, latent].
    """
    terms = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
    return tf.reduce_mean(tf.reduce_sum(terms, axis=1)) / 2.0


def gaussian_error(predicted: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """-log N(target | predicted, I) less its constant: half the squared error's sum over an image.

    On the discriminator's l-th layer it is the paper's L_llike^Dis_l (section 2.3), on pixels the
    L_llike^pixel of a plain VAE (section 2.1). predicted, target: float [batch, ...].
    """
    axes = list(range(1, len(predicted.shape)))
    return tf.reduce_mean(tf.reduce_sum(tf.square(predicted - target), axis=axes)) / 2.0


def discriminator_loss(real: tf.Tensor, *fakes: tf.Tensor) -> tf.Tensor:
    """-L_GAN: -log D(real) - log(1 - D(fake)) for each kind of fake, on logits [batch, 1].

    Algorithm 1 has two kinds: reconstructions, and images decoded from the prior.
    """
    loss = tf.reduce_mean(tf.nn.softplus(-real))
    return loss + tf.add_n([tf.reduce_mean(tf.nn.softplus(fake)) for fake in fakes])


def adversarial_loss(*fakes: tf.Tensor) -> tf.Tensor:
    """-log D(fake) for each kind of fake, on logits [batch, 1].

    The generator's part of L_GAN in the form that does not saturate (Goodfellow et al. 2014,
    section 3).
    """
    return tf.add_n([tf.reduce_mean(tf.nn.softplus(-fake)) for fake in fakes])


def balanced_rates(real: tf.Tensor, fake: tf.Tensor) -> dict[str, RateFactor]:
    """Learning rates that hold back whichever side is ahead. real, fake: logits [batch, 1].

    Encoder and generator learn faster the better the discriminator knows real images, by
    `logistic` of the mean D(real); the discriminator learns faster the more it is fooled, by
    `logistic` of the mean D(fake), fakes being decoded from the prior. Function and constants are
    those of github.com/timsainb/Tensorflow-MultiGPU-VAE-GAN, which takes the scores of the step
    before; here they are the step's own, meaned over all ranks by the engine.
    """
    known = RateFactor(tf.reduce_mean(tf.sigmoid(real)), logistic)
    fooled = RateFactor(tf.reduce_mean(tf.sigmoid(fake)), logistic)
    return {"encoder": known, "generator": known, "discriminator": fooled}


def logistic(score: tf.Tensor) -> tf.Tensor:
    """1 / (1 + exp(-15 (score - 0.5))): 0.5 at a score of a half, near 0 and 1 at its ends."""
    return tf.sigmoid((score + SHIFT) * STEEPNESS)
