"""However a model makes its variables, they train as NumPy says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.inference import Inference
from tests.engine.alone import stage, train_alone

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("horovod")
RNG = np.random.default_rng(0)
X, TARGET = RNG.normal(size=(2, 6, 3)).astype(np.float32)
START = {
    "generator": RNG.normal(0, 0.5, (3, 3)).astype(np.float32),
    "discriminator": RNG.normal(0, 0.5, (3, 1)).astype(np.float32),
}
BATCH = {"x": X, "target": TARGET}
RATE = 0.1
SCHEDULE = {
    "completion": stage(2, g=("completion", "generator")),
    "discriminator": stage(2, d=("discriminator", "discriminator")),
    "joint": stage(2, d=("discriminator", "discriminator"), g=("joint", "generator")),
}


def get_variable_with_reuse(scope: str, use_resource: bool | None = None):
    calls = []

    def apply(x):
        with v1.variable_scope(scope, reuse=bool(calls)):
            calls.append(x)
            start = v1.constant_initializer(START[scope])
            shape = START[scope].shape
            return x @ v1.get_variable("w", shape, initializer=start, use_resource=use_resource)

    return apply


def plain_variable(scope: str):
    with v1.variable_scope(scope):
        weights = tf.Variable(START[scope], name="w")
    return lambda x: x @ weights


def keras_layer(scope: str):
    layer = tf.keras.layers.Dense(
        START[scope].shape[1],
        use_bias=False,
        kernel_initializer=lambda shape, dtype=None: tf.constant(START[scope]),
    )

    def apply(x):
        with v1.variable_scope(scope):
            return layer(x)

    return apply


KINDS = {
    "get_variable_with_reuse": get_variable_with_reuse,
    "resource": partial(get_variable_with_reuse, use_resource=True),
    "reference": partial(get_variable_with_reuse, use_resource=False),
    "plain_variable": plain_variable,
    "keras_layer": keras_layer,
}


def linear_gan(network, batch, settings, training) -> GanGraph:
    """Least-squares losses (Mao et al. 2017, equation 9) over two linear networks."""
    generator, discriminator = network("generator"), network("discriminator")
    completed = generator(batch["x"])
    real, fake = discriminator(batch["target"]), discriminator(completed)
    completion = tf.reduce_mean(tf.square(completed - batch["target"]))
    return GanGraph(
        {"generator": "generator", "discriminator": "discriminator"},
        {
            "completion": completion,
            "discriminator": tf.reduce_mean(tf.square(real - 1) + tf.square(fake)),
            "joint": completion + tf.reduce_mean(tf.square(fake - 1)),
        },
    )


def by_hand():
    """The same training in NumPy: the two weights after each stage, and each step's losses."""
    w, v = START["generator"].astype(np.float64), START["discriminator"].astype(np.float64)
    weights, losses = {}, {}
    for name, moves in (("completion", "g"), ("discriminator", "d"), ("joint", "dg")):
        losses[name] = []
        for _ in range(2):
            y = X @ w
            miss, real, fake = y - TARGET, TARGET @ v - 1, y @ v
            completion, adversarial = np.mean(miss**2), np.mean((fake - 1) ** 2)
            told = {
                "completion": {"loss/completion": completion},
                "discriminator": {"loss/discriminator": np.mean(real**2 + fake**2)},
            }
            told["joint"] = {**told["discriminator"], "loss/joint": completion + adversarial}
            losses[name].append(told[name])
            for_w = X.T @ (2 * miss / miss.size)
            if name == "joint":
                for_w = for_w + X.T @ (2 * (fake - 1) / len(X) @ v.T)
            for_v = (TARGET.T @ (2 * real) + y.T @ (2 * fake)) / len(X)
            w, v = w - RATE * for_w * ("g" in moves), v - RATE * for_v * ("d" in moves)
        weights[name] = (w, v)
    return weights, losses


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_variable_trains_as_by_hand(kind):
    run = train_alone(partial(linear_gan, KINDS[kind]), SCHEDULE, BATCH)
    weights, losses = by_hand()
    [w] = [name for name in run.after["joint"] if name.startswith("generator/")]
    [v] = [name for name in run.after["joint"] if name.startswith("discriminator/")]
    assert run.states("completion") == {w: "trained", v: "frozen"}
    assert run.states("discriminator") == {w: "frozen", v: "trained"}
    assert run.states("joint") == {w: "trained", v: "trained"}
    assert run.ledger.warnings() == []
    for name, (for_w, for_v) in weights.items():
        np.testing.assert_allclose(run.after[name][w], for_w, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(run.after[name][v], for_v, atol=1e-5, err_msg=name)
        for found, expected in zip(run.reports[name], losses[name], strict=True):
            assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-5)


def test_a_plain_variable_made_twice_is_two_and_the_ledger_names_the_idle_one():
    def build(batch, settings, training):
        outputs = []
        for _ in range(2):
            with v1.variable_scope("generator", reuse=v1.AUTO_REUSE):
                outputs.append(batch["x"] @ tf.Variable(START["generator"], name="w"))
        loss = tf.reduce_mean(tf.square(tf.concat(outputs, 0)))
        return GanGraph({"generator": "generator"}, {"completion": loss})

    run = train_alone(build, {"a": stage(1, g=("completion", "generator"))}, BATCH)
    assert run.moved("a") == {"generator/w"}
    assert run.ledger.warnings() == ["no stage trains generator_1/w, which is in no network"]


def keras_gan(batch, settings, training) -> GanGraph:
    """Layers without names, with all that Keras keeps beside weights."""
    with v1.variable_scope("generator"):
        hidden = tf.keras.layers.Dense(4, activation="tanh")(batch["x"])
        hidden = tf.keras.layers.BatchNormalization()(hidden, training=training)
        hidden = tf.keras.layers.Dropout(0.25, seed=7)(hidden, training=training)
        completed = tf.keras.layers.Dense(3)(hidden)
    with v1.variable_scope("discriminator"):
        logits = tf.keras.layers.Dense(1)(completed)
    completion = tf.reduce_mean(tf.square(completed - batch["target"]))
    return GanGraph(
        networks={"generator": "generator", "discriminator": "discriminator"},
        losses={
            "completion": completion,
            "discriminator": tf.reduce_mean(tf.nn.softplus(logits)),
            "joint": completion + tf.reduce_mean(tf.nn.softplus(-logits)),
        },
        outputs={"completed": completed},
    )


def test_what_keras_layers_keep_beside_weights_moves_with_their_network_only():
    run = train_alone(keras_gan, SCHEDULE, BATCH)
    kept = {name for name, state in run.states("completion").items() if state == "buffer updated"}
    # Keras 3 keeps Dropout's seed in a variable, Keras 2 in none.
    expected = {"moving_mean", "moving_variance", "seed_generator_state"}
    assert {name.split("/")[-1] for name in kept} | {"seed_generator_state"} == expected
    assert kept <= run.moved("completion") and kept <= run.moved("joint")
    assert not kept & run.moved("discriminator")
    assert {run.states("discriminator")[name] for name in kept} == {"buffer held"}
    for name in SCHEDULE:
        trained = {entry for entry, state in run.states(name).items() if state == "trained"}
        assert trained | kept >= run.moved(name) >= trained


def test_the_moments_of_a_keras_batch_norm_follow_the_batch():
    def build(batch, settings, training):
        with v1.variable_scope("generator"):
            y = tf.keras.layers.BatchNormalization(momentum=0.9)(batch["x"], training=training)
            y = y @ v1.get_variable("w", (3, 1))
        return GanGraph({"generator": "generator"}, {"completion": tf.reduce_mean(tf.square(y))})

    run = train_alone(build, {"a": stage(2, g=("completion", "generator"))}, BATCH)
    moments = {name.split("/")[-1]: value for name, value in run.after["a"].items()}
    np.testing.assert_allclose(moments["moving_mean"], 0.19 * X.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments["moving_variance"], 0.81 + 0.19 * X.var(0), rtol=1e-5)


def test_weights_of_keras_layers_without_names_are_found_again_by_inference():
    trained = train_alone(keras_gan, SCHEDULE, BATCH).after["joint"]
    like = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in BATCH.items()}
    inference = Inference(keras_gan, {}, like)
    inference.load(trained)
    completed = inference.run(inference.gan.outputs, BATCH)["completed"]
    # In the order of their creation: kernel and bias, batch norm, kernel and bias.
    kernel, bias, gamma, beta, mean, variance, *rest = (
        value for name, value in trained.items() if name.startswith("generator/")
    )
    normal = (np.tanh(X @ kernel + bias) - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    np.testing.assert_allclose(completed, normal @ rest[-2] + rest[-1], atol=1e-5)


def test_what_a_step_reads_it_reads_before_anything_moves():
    """An average of weights, and a loss whose gradient does not need the weight's value."""

    def build(batch, settings, training):
        with v1.variable_scope("generator"):
            w = v1.get_variable("w", (), initializer=v1.constant_initializer(8.0))
            average = v1.get_variable(
                "average", (), initializer=v1.constant_initializer(4.0), trainable=False
            )
            average.assign(0.5 * average + 0.5 * w)
        return GanGraph({"generator": "generator"}, {"completion": 1.0 * w})

    run = train_alone(build, {"a": stage(2, g=("completion", "generator"))}, BATCH)
    # The gradient is 1 and the rate 0.1, so the steps begin with 8 and 7.9.
    losses = [report["loss/completion"] for report in run.reports["a"]]
    assert losses == pytest.approx([8, 7.9])
    assert run.after["a"]["generator/w"] == pytest.approx(7.8)
    assert run.after["a"]["generator/average"] == pytest.approx((4 / 2 + 8 / 2) / 2 + 7.9 / 2)


@pytest.mark.parametrize("passes", [1, 2])
def test_losses_without_a_known_shape_train_as_by_hand(passes):
    """So they come out of a Python function."""

    def build(batch, settings, training) -> GanGraph:
        gan = linear_gan(get_variable_with_reuse, batch, settings, training)
        shapeless = {
            name: v1.placeholder_with_default(loss, shape=None) for name, loss in gan.losses.items()
        }
        return GanGraph(gan.networks, shapeless)

    run = train_alone(build, SCHEDULE, BATCH, backward_passes_per_step=passes)
    _, losses = by_hand()
    for name in SCHEDULE:
        for found, expected in zip(run.reports[name], losses[name], strict=True):
            assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-5)
