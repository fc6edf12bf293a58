"""The VAE-GAN is the paper's: its layers, its losses, and who hears whom."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats

from hvd_gan.engine.inference import Inference
from hvd_gan.models.noise import normal_noise
from hvd_gan.models.vae_gan import VaeGanSettings, build, passes
from hvd_gan.models.vae_gan_losses import (
    adversarial_loss,
    discriminator_loss,
    gaussian_error,
    kl_divergence,
    logistic,
)

v1 = tf.compat.v1
SMALL = {"latent": 5, "width": 0.1, "batch_norm": "off", "discriminator_batch_norm": "off"}


def run(tensor):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(tensor)


def arrays(size: int, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "image": rng.random((count, size, size, 3), np.float32),
        "noise_seed": rng.integers(0, 2**31 - 1, (count, 2), np.int32),
    }


def batch(size: int, count: int = 2) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in arrays(size, count).items()}


# Table 1 of the paper as (inputs, outputs) of the 5x5 convolutions, written out by hand from it.
ENCODER = [(3, 64), (64, 128), (128, 256)]
GENERATOR = [(256, 256), (256, 128), (128, 32), (32, 3)]
DISCRIMINATOR = [(3, 32), (32, 128), (128, 256), (256, 256)]
FLAT = 8 * 8 * 256


def parameters(layers: list[tuple[int, int]]) -> int:
    return sum(25 * inputs * outputs + outputs for inputs, outputs in layers)


def test_at_width_1_the_parameter_counts_are_the_papers():
    with tf.Graph().as_default():
        gan = build(batch(64, 1), VaeGanSettings(latent=128), True)
        counts = {
            network: sum(
                int(np.prod(variable.shape))
                for variable in gan.trainable((network,))
                if variable.op.name.endswith(("weights", "bias"))
            )
            for network in gan.networks
        }
    assert counts == {
        "encoder": parameters(ENCODER) + 2 * (FLAT * 128 + 128),
        "generator": parameters(GENERATOR) + 128 * FLAT + FLAT,
        "discriminator": parameters(DISCRIMINATOR) + FLAT * 512 + 512 + 512 + 1,
    }


def test_the_divergence_is_the_integral_that_defines_it():
    rng = np.random.default_rng(1)
    mean, log_variance = rng.normal(size=(2, 3, 4))

    def divergence(m, v):
        q, p = stats.norm(m, np.exp(v / 2)), stats.norm()
        inside = lambda z: q.pdf(z) * (q.logpdf(z) - p.logpdf(z))  # noqa: E731
        return integrate.quad(inside, m - 30, m + 30, points=[m], limit=200)[0]

    expected = np.vectorize(divergence)(mean, log_variance).sum(axis=1).mean()
    with tf.Graph().as_default():
        found = run(kl_divergence(tf.constant(mean), tf.constant(log_variance)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_error_is_a_gaussian_likelihood_less_its_constant():
    one, other = np.random.default_rng(2).normal(size=(2, 3, 4, 4, 2))
    likelihood = stats.norm(one, 1).logpdf(other).reshape(3, -1).sum(axis=1)
    constant = stats.norm().logpdf(0) * 4 * 4 * 2
    with tf.Graph().as_default():
        found = run(gaussian_error(tf.constant(one), tf.constant(other)))
    np.testing.assert_allclose(found, -(likelihood - constant).mean(), rtol=1e-9)


def test_adversarial_losses_count_each_kind_of_fake():
    real, rebuilt, fake = np.random.default_rng(3).normal(size=(3, 4, 1))
    known = [1 / (1 + np.exp(-logits)) for logits in (real, rebuilt, fake)]
    with tf.Graph().as_default():
        found = run(discriminator_loss(*map(tf.constant, (real, rebuilt, fake))))
        fooling = run(adversarial_loss(*map(tf.constant, (rebuilt, fake))))
    expected = -np.log(known[0]).mean() - sum(np.log(1 - k).mean() for k in known[1:])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(fooling, -sum(np.log(k).mean() for k in known[1:]), rtol=1e-9)


def test_the_balance_is_a_logistic_function_of_the_mean_probability():
    scores = np.array([0.0, 0.3, 0.5, 0.9, 1.0])
    with tf.Graph().as_default():
        found = run(logistic(tf.constant(scores)))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-(scores - 0.5) * 15)), rtol=1e-9)


def test_only_a_balanced_model_has_rate_factors_and_they_are_its_probabilities():
    with tf.Graph().as_default():
        assert not build(batch(16), VaeGanSettings(**SMALL), True).rate_factors
    with tf.Graph().as_default():
        gan = build(batch(16), VaeGanSettings(**SMALL, balance=True), True)
        assert set(gan.rate_factors) == set(gan.networks)
        values = run({name: factor.value for name, factor in gan.rate_factors.items()})
    assert values["encoder"] == values["generator"] != values["discriminator"]
    assert all(0 < value < 1 for value in values.values())


def test_an_images_noise_depends_on_its_seed_alone():
    seeds = np.random.default_rng(4).integers(0, 2**31 - 1, (50, 2), np.int32)
    with tf.Graph().as_default():
        together = run(normal_noise(tf.constant(seeds), 2, 300))
        parts = [run(normal_noise(tf.constant(seeds[rank::2]), 2, 300)) for rank in (0, 1)]
    assert together.shape == (50, 2, 300)
    for rank in (0, 1):
        np.testing.assert_array_equal(parts[rank], together[rank::2])
    assert stats.kstest(together.ravel(), "norm").pvalue > 0.001
    assert abs(np.corrcoef(together.reshape(100, -1))[np.triu_indices(100, 1)]).max() < 0.35


def losses(values: dict[str, np.ndarray], norm: str = "off") -> dict[str, float]:
    with tf.Graph().as_default():
        v1.set_random_seed(5)
        tensors = {name: tf.constant(value) for name, value in values.items()}
        settings = {**SMALL, "batch_norm": norm, "discriminator_batch_norm": norm}
        return run(dict(build(tensors, VaeGanSettings(**settings), True).losses))


def test_losses_of_a_batch_are_the_means_of_its_parts():
    values = arrays(16, 4)
    whole = losses(values)
    parts = [losses({name: value[rank::2] for name, value in values.items()}) for rank in (0, 1)]
    for name, value in whole.items():
        mean = (parts[0][name] + parts[1][name]) / 2
        np.testing.assert_allclose(value, mean, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("norm", ["off", "plain"])
def test_losses_are_the_sums_of_their_parts(norm):
    found = losses(arrays(16, 4), norm)
    settings = VaeGanSettings()
    sums = {
        "reconstruction": found["kl"] + settings.pixel_weight * found["pixels"],
        "encoder": found["kl"] + found["similarity"],
        "generator": settings.gamma * found["similarity"] + found["adversarial"],
    }
    for name, value in sums.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_each_loss_reaches_the_networks_that_it_is_for_and_pixels_no_discriminator():
    with tf.Graph().as_default():
        gan = build(batch(16), VaeGanSettings(**SMALL), True)

        def reached(loss, network):
            return [
                g is not None for g in tf.gradients(gan.losses[loss], gan.trainable((network,)))
            ]

        for loss, network in (
            ("reconstruction", "encoder"),
            ("reconstruction", "generator"),
            ("encoder", "encoder"),
            ("generator", "generator"),
            ("discriminator", "discriminator"),
        ):
            assert all(reached(loss, network)), (loss, network)
        assert not any(reached("reconstruction", "discriminator"))
        assert not any(reached("kl", "generator"))


@pytest.mark.parametrize(("layer", "side"), [(1, 32), (2, 16), (3, 8), (4, 4), (5, None)])
def test_the_similarity_is_that_of_the_layer_that_was_asked_for(layer, side):
    names = ["conv1", "conv2", "conv3", "conv4", "features"]
    with tf.Graph().as_default() as graph:
        gan = build(batch(32), VaeGanSettings(**SMALL, similarity_layer=layer), True)
        real, rebuilt = (
            graph.get_tensor_by_name(f"discriminator{suffix}/{names[layer - 1]}/BiasAdd:0")
            for suffix in ("", "_1")
        )
        assert side is None or real.shape[1] == side
        similarity, one, other = run((gan.losses["similarity"], real, rebuilt))
    np.testing.assert_allclose(similarity, np.square(one - other).sum() / 2 / 2, rtol=1e-5)


def test_batch_norm_takes_its_moments_over_all_batches_of_joined_passes():
    one, other = np.random.default_rng(6).normal(size=(2, 3, 4))
    batches = [tf.constant(one), tf.constant(other)]
    with tf.Graph().as_default():
        batches = [tf.constant(one), tf.constant(other)]
        centred = run(passes(lambda x: x - tf.reduce_mean(x, 0), batches, joined=True))
        apart = run(passes(lambda x: (x - tf.reduce_mean(x, 0), x), batches, joined=False))
        pairs = run(passes(lambda x: (x, 2 * x), batches, joined=True))
    middle = np.concatenate([one, other]).mean(axis=0)
    np.testing.assert_allclose(centred, [one - middle, other - middle])
    np.testing.assert_allclose(apart[1][0], other - other.mean(axis=0))
    np.testing.assert_allclose(pairs[1], [other, 2 * other])


def test_inference_decodes_the_mean_and_any_point_that_it_is_fed():
    values = arrays(16, 3)
    with tf.Graph().as_default():
        like = batch(16, 1)
    inference = Inference(build, VaeGanSettings(**SMALL), like)
    rng = np.random.default_rng(7)
    inference.load(
        {
            name: rng.normal(0, 0.1, tensor.shape.as_list())
            for name, tensor in inference._values.items()
        }
    )
    outputs = inference.gan.outputs
    found = inference.run(outputs, values)
    assert found["latent"].shape == (3, 5)
    assert found["reconstruction"].shape == found["generated"].shape == (3, 16, 16, 3)
    assert found["reconstruction"].min() >= 0 and found["reconstruction"].max() <= 1
    points = np.concatenate([found["latent"], np.zeros((4, 5), np.float32)])
    decoded = inference.run({"generated": outputs["generated"]}, {"latent": points})["generated"]
    assert decoded.shape == (7, 16, 16, 3)
    np.testing.assert_allclose(decoded[:3], found["reconstruction"], atol=1e-6)
    assert np.abs(decoded[:3] - found["generated"]).max() > 1e-4


def test_a_size_that_cannot_be_halved_three_times_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Set 24 or 32"):
        build(batch(30), VaeGanSettings(**SMALL), True)
