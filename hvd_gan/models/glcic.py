"""GLCIC: Iizuka, Simo-Serra and Ishikawa, "Globally and Locally Consistent Image Completion",
ACM Transactions on Graphics 36(4), SIGGRAPH 2017. Tables and equations are that paper's.

At width 1 and 256x256 images the layers are those of its tables 1 and 2.
"""

from __future__ import annotations

import math

import tensorflow as tf
from pydantic import Field

from hvd_gan.config_base import Positive, Strict
from hvd_gan.engine.graph import GanGraph, Tensors
from hvd_gan.engine.model import takes
from hvd_gan.models.completion import CompletionQuality
from hvd_gan.models.layers import Activation, BatchNorm, activate, batch_norm, conv, deconv, dense
from hvd_gan.models.losses import discriminator_loss, generator_loss, hole_mse

# Table 1, without the output layer: type, kernel, dilation, stride, outputs.
COMPLETION = (
    ("conv", 5, 1, 1, 64),
    ("conv", 3, 1, 2, 128),
    ("conv", 3, 1, 1, 128),
    ("conv", 3, 1, 2, 256),
    ("conv", 3, 1, 1, 256),
    ("conv", 3, 1, 1, 256),
    ("dilated", 3, 2, 1, 256),
    ("dilated", 3, 4, 1, 256),
    ("dilated", 3, 8, 1, 256),
    ("dilated", 3, 16, 1, 256),
    ("conv", 3, 1, 1, 256),
    ("conv", 3, 1, 1, 256),
    ("deconv", 4, 1, 2, 128),
    ("conv", 3, 1, 1, 128),
    ("deconv", 4, 1, 2, 64),
    ("conv", 3, 1, 1, 32),
)
# Table 2: the channels of the stride-2 convolutions, as many as bring the side down to 4.
DISCRIMINATOR = [64, 128, 256, 512, 512, 512]
FEATURES = 1024


class GlcicSettings(Strict):
    """`width` multiplies every layer's channels; `patch_size` is the side of the local patch.

    `alpha` weighs the adversarial loss against the completion loss (equation 4).
    """

    width: Positive = 1.0
    patch_size: int = Field(32, ge=8)
    alpha: float = Field(4e-4, ge=0)
    batch_norm: BatchNorm = "plain"
    discriminator_batch_norm: BatchNorm = "plain"
    activation: Activation = "relu"


@takes(GlcicSettings)
def build(batch: Tensors, settings: GlcicSettings, training: bool) -> GanGraph:
    """Completion network and context discriminators, with their losses.

    batch: `image` float32 [batch, size, size, 3] in [0, 1]; `mask` float32 [batch, size, size, 1],
    1 inside the hole; `box` and `real_box` int32 [batch, 4]: top, left, height and width of the
    hole, and of another random place that the real image is judged at; `mean_color` float32 [3].
    Raises ValueError where the sizes do not fit the network.
    """
    image, mask = batch["image"], batch["mask"]
    _check_sizes(image, settings)
    holed = image * (1.0 - mask) + batch["mean_color"] * mask
    with tf.compat.v1.variable_scope("generator", reuse=tf.compat.v1.AUTO_REUSE):
        output = completion_network(holed, mask, settings, training)
    # Outside the hole the image is restored.
    completed = holed * (1.0 - mask) + output * mask

    def judge(images: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
        with tf.compat.v1.variable_scope("discriminator", reuse=tf.compat.v1.AUTO_REUSE):
            return context_discriminator(images, box, settings, training)

    # One pass over the completed images serves both losses: each update's gradient goes to its own
    # var_list, so the generator hears the discriminator and the discriminator is not moved by it.
    real, fake = judge(image, batch["real_box"]), judge(completed, batch["box"])
    completion, adversarial = hole_mse(output, image, mask), generator_loss(fake)
    return GanGraph(
        networks={"generator": "generator", "discriminator": "discriminator"},
        losses={
            "completion": completion,
            "discriminator": discriminator_loss(real, fake),
            "adversarial": adversarial,
            "joint": completion + settings.alpha * adversarial,
        },
        inputs={"image": image, "mask": mask},
        outputs={"completed": completed},
        images={"original": image, "input": holed, "completion": completed},
        quality=CompletionQuality(),
    )


def completion_network(
    holed: tf.Tensor, mask: tf.Tensor, settings: GlcicSettings, training: bool
) -> tf.Tensor:
    """Table 1: holed image and mask in, an image in [0, 1] of the same size out."""
    x = tf.concat([holed, mask], axis=-1)
    for number, (kind, kernel, dilation, stride, outputs) in enumerate(COMPLETION, 1):
        name, channels = f"{number:02d}_{kind}", wide(outputs, settings)
        if kind == "deconv":
            x = deconv(x, name, channels, kernel, stride)
        else:
            x = conv(x, name, channels, kernel, stride, dilation)
        x = batch_norm(x, f"{name}/norm", settings.batch_norm, training)
        x = activate(x, settings.activation)
    return tf.sigmoid(conv(x, "output", 3, 3))


def context_discriminator(
    images: tf.Tensor, box: tf.Tensor, settings: GlcicSettings, training: bool
) -> tf.Tensor:
    """Table 2: the logit, [batch, 1], that images are real, from the whole and from a patch."""
    patch = cut_patch(images, box, settings.patch_size)
    features = []
    for name, view in (("global", images), ("local", patch)):
        with tf.compat.v1.variable_scope(name):
            features.append(_features(view, settings, training))
    return dense(tf.concat(features, axis=-1), "joined", 1)


def cut_patch(images: tf.Tensor, box: tf.Tensor, size: int) -> tf.Tensor:
    """The size x size patch around the centre of each image's box, moved to lie in the image.

    images: [batch, height, width, channels]; box: int32 [batch, 4], top, left, height, width.
    Returns [batch, size, size, channels].
    """
    height, width = images.shape[1], images.shape[2]
    tops = tf.clip_by_value(box[:, 0] + box[:, 2] // 2 - size // 2, 0, height - size)
    lefts = tf.clip_by_value(box[:, 1] + box[:, 3] // 2 - size // 2, 0, width - size)
    rows = tops[:, None] + tf.range(size)
    columns = lefts[:, None] + tf.range(size)
    patch = tf.gather(tf.gather(images, rows, batch_dims=1), columns, axis=2, batch_dims=1)
    return tf.ensure_shape(patch, [images.shape[0], size, size, images.shape[3]])


def wide(channels: int, settings: GlcicSettings) -> int:
    """A layer's channels at the settings' width, 4 at least."""
    return max(4, round(channels * settings.width))


def _features(x: tf.Tensor, settings: GlcicSettings, training: bool) -> tf.Tensor:
    layers = max(1, math.ceil(math.log2(x.shape[1] / 4)))
    for number in range(1, layers + 1):
        channels = wide(DISCRIMINATOR[min(number, len(DISCRIMINATOR)) - 1], settings)
        x = conv(x, f"conv{number}", channels, 5, stride=2)
        x = batch_norm(x, f"conv{number}/norm", settings.discriminator_batch_norm, training)
        x = activate(x, settings.activation)
    return activate(dense(x, "features", wide(FEATURES, settings)), settings.activation)


def _check_sizes(image: tf.Tensor, settings: GlcicSettings) -> None:
    size = image.shape[1]
    if size % 4:
        raise ValueError(
            f"data.image_size: {size} is not a multiple of 4; the completion network halves the "
            f"image twice. Set {size // 4 * 4} or {size // 4 * 4 + 4}"
        )
    if settings.patch_size > size:
        raise ValueError(
            f"model.settings.patch_size: {settings.patch_size} is larger than the {size}x{size} "
            f"images; set {size // 2}, half the image, as the paper does"
        )
