"""GLCIC is the paper's: its layers, its patch, and who hears whom."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.models.glcic import GlcicSettings, build, cut_patch

v1 = tf.compat.v1


def batch(size: int, count: int = 2, seed: int = 0) -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(seed)
    mask = np.zeros((count, size, size, 1), np.float32)
    top, left, side = size // 4, size // 3, size // 4
    mask[:, top : top + side, left : left + side] = 1
    box = np.tile(np.array([top, left, side, side], np.int32), (count, 1))
    return {
        "image": tf.constant(rng.random((count, size, size, 3), np.float32)),
        "mask": tf.constant(mask),
        "box": tf.constant(box),
        "real_box": tf.constant(box),
        "mean_color": tf.constant([0.1, 0.5, 0.9]),
    }


def count(scope: str, kinds: tuple[str, ...]) -> int:
    return sum(
        int(np.prod(variable.shape))
        for variable in v1.trainable_variables(f"{scope}/")
        if variable.op.name.endswith(kinds)
    )


# Tables 1 and 2 of the paper as (kernel, inputs, outputs), written out by hand from it.
COMPLETION = [
    (5, 4, 64),
    (3, 64, 128),
    (3, 128, 128),
    (3, 128, 256),
    *[(3, 256, 256)] * 2,
    *[(3, 256, 256)] * 4,
    *[(3, 256, 256)] * 2,
    (4, 256, 128),
    (3, 128, 128),
    (4, 128, 64),
    (3, 64, 32),
    (3, 32, 3),
]
LOCAL = [(5, 3, 64), (5, 64, 128), (5, 128, 256), (5, 256, 512), (5, 512, 512)]
GLOBAL = [*LOCAL, (5, 512, 512)]


def parameters(layers: list[tuple[int, int, int]]) -> int:
    return sum(kernel**2 * inputs * outputs + outputs for kernel, inputs, outputs in layers)


def test_at_width_1_the_parameter_counts_are_the_papers():
    with tf.Graph().as_default():
        build(batch(256, count=1), GlcicSettings(patch_size=128), True)
        weights = ("weights", "bias")
        assert count("generator", weights) == parameters(COMPLETION) == 6_066_179
        flat = 4 * 4 * 512
        assert count("discriminator/local", weights) == parameters(LOCAL) + flat * 1024 + 1024
        assert count("discriminator/global", weights) == parameters(GLOBAL) + flat * 1024 + 1024
        assert count("discriminator/joined", weights) == 2 * 1024 + 1
        # Batch norm after every layer but the output: a scale and an offset each.
        assert count("generator", ("scale", "offset")) == 2 * sum(o for *_, o in COMPLETION[:-1])


def test_the_layer_table_is_the_papers():
    """Table 1's strides and dilations show in the sizes and the order of the convolutions."""
    with tf.Graph().as_default() as graph:
        build(batch(256, count=1), GlcicSettings(patch_size=128, batch_norm="off"), True)
        outputs = [
            graph.get_tensor_by_name(f"{name}/BiasAdd:0").shape.as_list()[1:]
            for name in dict.fromkeys(
                variable.op.name.rpartition("/")[0]
                for variable in v1.trainable_variables("generator/")
            )
        ]
        dilations = [
            operation.get_attr("dilations")[1]
            for operation in graph.get_operations()
            if operation.type == "Conv2D" and operation.name.startswith("generator/")
        ]
    sides = [256, 128, 128, *[64] * 9, 128, 128, 256, 256, 256]
    channels = [layer[2] for layer in COMPLETION]
    assert outputs == [[side, side, c] for side, c in zip(sides, channels, strict=True)]
    assert [value for value in dilations if value > 1] == [2, 4, 8, 16]


def test_the_patch_is_cut_around_the_hole_and_stays_inside():
    images = np.arange(2 * 16 * 16, dtype=np.float32).reshape(2, 16, 16, 1)
    box = np.array([[6, 7, 4, 2], [0, 13, 3, 3]], np.int32)
    with tf.Graph().as_default(), v1.Session() as session:
        patch = session.run(cut_patch(tf.constant(images), tf.constant(box), 6))
    np.testing.assert_array_equal(patch[0], images[0, 5:11, 5:11])
    np.testing.assert_array_equal(patch[1], images[1, 0:6, 10:16])


@pytest.fixture(scope="module")
def gradients():
    """Gradients of each loss for each network, on random weights."""
    with tf.Graph().as_default():
        v1.set_random_seed(3)
        settings = GlcicSettings(width=0.1, patch_size=16, alpha=1.0)
        gan = build(batch(32), settings, True)
        wanted = {
            (loss, scope): tf.gradients(value, v1.trainable_variables(f"{scope}/"))
            for loss, value in gan.losses.items()
            for scope in ("generator", "discriminator")
        }
        adversarial = tf.gradients(
            gan.losses["joint"] - gan.losses["completion"], v1.trainable_variables("generator/")
        )
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            reached = {key: [g for g in value if g is not None] for key, value in wanted.items()}
            norms = {
                key: session.run(tf.linalg.global_norm(value)) if value else None
                for key, value in reached.items()
            }
            return norms, session.run(tf.linalg.global_norm(adversarial))


def test_the_generator_hears_the_discriminator_in_the_joint_loss(gradients):
    norms, adversarial = gradients
    assert adversarial > 1e-3
    assert norms["joint", "generator"] > 0


def test_the_completion_loss_does_not_reach_the_discriminator(gradients):
    assert gradients[0]["completion", "discriminator"] is None


def test_the_hole_is_filled_and_the_rest_is_the_original():
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = batch(32)
        gan = build(inputs, GlcicSettings(width=0.1, patch_size=16), False)
        session.run(v1.global_variables_initializer())
        image, mask, holed, completed = session.run(
            (inputs["image"], inputs["mask"], gan.images["input"], gan.outputs["completed"])
        )
    outside = np.broadcast_to(mask == 0, image.shape)
    np.testing.assert_array_equal(completed[outside], image[outside])
    assert not np.array_equal(completed, image)
    np.testing.assert_allclose(holed[~outside].reshape(-1, 3)[0], [0.1, 0.5, 0.9], rtol=1e-6)
    assert completed.min() >= 0 and completed.max() <= 1


@pytest.mark.parametrize(
    ("size", "patch", "expected"),
    [
        (30, 16, "data.image_size: 30 is not a multiple of 4"),
        (32, 48, "model.settings.patch_size: 48 is larger than the 32x32 images"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(size, patch, expected):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=expected):
        build(batch(size), GlcicSettings(patch_size=patch), True)
