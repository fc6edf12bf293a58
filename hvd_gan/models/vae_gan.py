"""VAE-GAN: Larsen, Sønderby, Larochelle and Winther, "Autoencoding beyond pixels using a learned
similarity metric", ICML 2016, arXiv:1512.09300. Sections and algorithm 1 are that paper's.

At width 1 and 64x64 images the convolutions are those of its table 1. Two things differ: the
encoder's last convolution leads straight to mean and variance, and images lie in [0, 1], so the
generator ends in a sigmoid instead of tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from pydantic import Field

from hvd_gan.config_base import Positive, Strict
from hvd_gan.engine.graph import GanGraph, Tensors
from hvd_gan.engine.model import takes
from hvd_gan.models.layers import Activation, BatchNorm, activate, batch_norm, conv, deconv, dense
from hvd_gan.models.noise import normal_noise
from hvd_gan.models.reconstruction import ReconstructionQuality
from hvd_gan.models.vae_gan_losses import (
    adversarial_loss,
    balanced_rates,
    discriminator_loss,
    gaussian_error,
    kl_divergence,
)

# Table 1: the channels of the 5x5 convolutions. Each of the encoder's and the generator's has
# stride 2; so have the discriminator's but the first.
KERNEL = 5
ENCODER = (64, 128, 256)
GENERATOR = (256, 128, 32)
DISCRIMINATOR = (32, 128, 256, 256)
FEATURES = 512
REDUCTION = 8

Network = Callable[[tf.Tensor], Any]


class VaeGanSettings(Strict):
    """`latent` is the number of latent dimensions; `width` multiplies every layer's channels.

    `similarity_layer` is the discriminator's layer whose outputs, before batch norm and activation,
    measure how alike two images are: 1 to 4 are its convolutions, 5 its fully connected layer.
    `gamma` weighs that similarity against the adversarial loss in the generator's. `pixel_weight`
    weighs the pixels' error against the KL divergence in the reconstruction loss: 1 / sigma^2 of a
    Gaussian around each pixel. `balance` multiplies the networks' learning rates by how well the
    discriminator does (`vae_gan_losses.balanced_rates`).
    """

    latent: int = Field(2048, ge=1)
    width: Positive = 1.0
    similarity_layer: int = Field(4, ge=1, le=5)
    gamma: float = Field(1e-5, ge=0)
    pixel_weight: Positive = 10.0
    batch_norm: BatchNorm = "plain"
    discriminator_batch_norm: BatchNorm = "plain"
    activation: Activation = "relu"
    balance: bool = False


@takes(VaeGanSettings)
def build(batch: Tensors, settings: VaeGanSettings, training: bool) -> GanGraph:
    """Encoder, generator (the decoder) and discriminator, with the losses of algorithm 1.

    batch: `image` float32 [batch, size, size, 3] in [0, 1]; `noise_seed` int32 [batch, 2]. Holes
    are ignored. Training decodes a latent point drawn around each image's mean, inference the mean
    itself. Losses: `encoder`, `generator` and `discriminator` are those of the joint stage;
    `reconstruction`, of the first, has pixels in place of the discriminator's features, which mean
    nothing before it is trained; `kl`, `pixels`, `similarity` and `adversarial` are their parts.
    Raises ValueError where the image size does not fit the networks.
    """
    image, noise = batch["image"], normal_noise(batch["noise_seed"], 2, settings.latent)
    _check_size(image)
    mean, log_variance = encoder(image, settings, training)
    drawn = mean + tf.exp(log_variance / 2.0) * noise[:, 0]
    prior = noise[:, 1]
    if not training:
        # What inference feeds, to decode any point.
        prior = tf.compat.v1.placeholder_with_default(prior, [None, settings.latent])
    size = image.shape[1]
    reconstruction, generated = passes(
        lambda points: generator(points, size, settings, training),
        [drawn if training else mean, prior],
        joined=training and settings.batch_norm != "off",
    )
    # One pass serves all updates: a gradient enters only its update's var_list, which is what the
    # paper's "limiting error signals to relevant networks" asks for.
    (real, features), (rebuilt, rebuilt_features), (fake, _) = passes(
        lambda images: discriminator(images, settings, training),
        [image, reconstruction, generated],
        joined=training and settings.discriminator_batch_norm != "off",
    )
    kl, pixels = kl_divergence(mean, log_variance), gaussian_error(reconstruction, image)
    similarity = gaussian_error(rebuilt_features, features)
    adversarial = adversarial_loss(rebuilt, fake)
    return GanGraph(
        networks={name: name for name in ("encoder", "generator", "discriminator")},
        losses={
            "reconstruction": kl + settings.pixel_weight * pixels,
            "encoder": kl + similarity,
            "generator": settings.gamma * similarity + adversarial,
            "discriminator": discriminator_loss(real, rebuilt, fake),
            "kl": kl,
            "pixels": pixels,
            "similarity": similarity,
            "adversarial": adversarial,
        },
        inputs={"image": image, "latent": prior},
        outputs={"reconstruction": reconstruction, "latent": mean, "generated": generated},
        images={"original": image, "reconstruction": reconstruction, "sample": generated},
        quality=ReconstructionQuality(),
        rate_factors=balanced_rates(real, fake) if settings.balance else {},
    )


def encoder(
    images: tf.Tensor, settings: VaeGanSettings, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and logarithm of the variance of q(z|x), each [batch, latent] (section 2.1)."""
    with tf.compat.v1.variable_scope("encoder", reuse=tf.compat.v1.AUTO_REUSE):
        x = images
        for number, outputs in enumerate(ENCODER, 1):
            x = conv(x, f"conv{number}", wide(outputs, settings), KERNEL, stride=2)
            x = batch_norm(x, f"conv{number}/norm", settings.batch_norm, training)
            x = activate(x, settings.activation)
        return dense(x, "mean", settings.latent), dense(x, "log_variance", settings.latent)


def generator(latent: tf.Tensor, size: int, settings: VaeGanSettings, training: bool) -> tf.Tensor:
    """The decoder: from [batch, latent] to images [batch, size, size, 3] in [0, 1]."""
    with tf.compat.v1.variable_scope("generator", reuse=tf.compat.v1.AUTO_REUSE):
        side, channels = size // REDUCTION, wide(GENERATOR[0], settings)
        x = dense(latent, "start", side * side * channels)
        x = tf.reshape(x, [-1, side, side, channels])
        x = batch_norm(x, "start/norm", settings.batch_norm, training)
        x = activate(x, settings.activation)
        for number, outputs in enumerate(GENERATOR, 1):
            x = deconv(x, f"deconv{number}", wide(outputs, settings), KERNEL, stride=2)
            x = batch_norm(x, f"deconv{number}/norm", settings.batch_norm, training)
            x = activate(x, settings.activation)
        return tf.sigmoid(conv(x, "output", 3, KERNEL))


def discriminator(
    images: tf.Tensor, settings: VaeGanSettings, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """The logit, [batch, 1], that images are real, and the outputs of the similarity layer."""
    with tf.compat.v1.variable_scope("discriminator", reuse=tf.compat.v1.AUTO_REUSE):
        x, layers = images, []
        for number, outputs in enumerate(DISCRIMINATOR, 1):
            stride = 1 if number == 1 else 2
            x = conv(x, f"conv{number}", wide(outputs, settings), KERNEL, stride)
            layers.append(x)
            if number > 1:
                x = batch_norm(x, f"conv{number}/norm", settings.discriminator_batch_norm, training)
            x = activate(x, settings.activation)
        x = dense(x, "features", wide(FEATURES, settings))
        layers.append(x)
        x = batch_norm(x, "features/norm", settings.discriminator_batch_norm, training)
        x = activate(x, settings.activation)
        return dense(x, "logit", 1), layers[settings.similarity_layer - 1]


def passes(network: Network, batches: Sequence[tf.Tensor], joined: bool) -> list:
    """A network's outputs on several batches, in their order.

    `joined` makes one pass over them all, whose batch norm takes its moments over all: real and
    false images are then measured with one ruler, and the moving moments fit both. Without batch
    norm it makes no difference but time, since gradients pass through what they do not need.
    """
    if not joined:
        return [network(batch) for batch in batches]
    outputs = network(tf.concat(batches, axis=0))
    if isinstance(outputs, tuple):
        return list(zip(*(tf.split(output, len(batches)) for output in outputs), strict=True))
    return tf.split(outputs, len(batches))


def wide(channels: int, settings: VaeGanSettings) -> int:
    """A layer's channels at the settings' width, 4 at least."""
    return max(4, round(channels * settings.width))


def _check_size(image: tf.Tensor) -> None:
    size = image.shape[1]
    if size % REDUCTION:
        lower = size // REDUCTION * REDUCTION
        raise ValueError(
            f"data.image_size: {size} is not a multiple of {REDUCTION}; the networks halve the "
            f"image three times. Set {lower} or {lower + REDUCTION}"
        )
