"""Ranks against oracles: three towers, one process, and SGD written out in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.config import DataSettings
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import open_source
from tests.engine.plain_sgd import train_plainly
from tests.launch import trained
from tests.models.proofs import everything
from tests.ranks.runs import assert_close, metrics, values, weights
from tests.ranks.towers import train_towers

pytestmark = pytest.mark.ranks
STEPS = {"completion": 5, "discriminator": 3, "joint": 4}
BATCH = 12
DATA = DataSettings.model_validate(
    {
        "source": "digits",
        "image_size": 32,
        "flip": False,
        "hole": {"min": 10, "max": 16, "place": "centre"},
    }
)
EVERY_STEP = "log_every=1"
SGD = "optimizer={name: sgd, learning_rate: 0.5}"
SYNC = "model.settings={norm: sync}"
GENERATOR = ("generator", "embedding")
EVERYTHING = (
    "model.build=tests.models.proofs:everything",
    "optimizer={name: sgd, learning_rate: 0.1}",
    "stages.completion.updates.generator={loss: completion, networks: [generator, embedding], "
    "allow_unreached: [generator/branch]}",
    "stages.joint.updates.generator={loss: joint, networks: [generator, embedding]}",
    "verify=true",
    EVERY_STEP,
)
MOVES = {
    "completion": (5, [("completion", GENERATOR)]),
    "discriminator": (3, [("discriminator", ("discriminator",))]),
    "joint": (4, [("discriminator", ("discriminator",)), ("joint", GENERATOR)]),
}


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory):
    """The tiny model with Adam."""
    return trained("mpirun", 3, tmp_path_factory.mktemp("three") / "run", EVERY_STEP)


@pytest.fixture(scope="module")
def everything_on_two(tmp_path_factory):
    return trained("mpirun", 2, tmp_path_factory.mktemp("everything") / "run", *EVERYTHING)


@pytest.fixture(scope="module")
def in_numpy():
    """`everything`, trained on the samples that both ranks see together."""
    return train_plainly(everything, MOVES, batches(), lambda loss: 0.1)


def batches() -> Iterator[dict[str, np.ndarray]]:
    sampler = Sampler(open_source(DATA, "train"), DATA, seed=1)
    position = 0
    while True:
        samples = [sampler.sample(position + offset) for offset in range(BATCH)]
        position += BATCH
        images = np.stack([sample.image for sample in samples]).astype(np.float32) / 255
        yield {"image": images, "mask": np.stack([sample.mask for sample in samples])}


def losses(run) -> list[dict[str, float]]:
    """The losses of each step, rounded to six digits as they are in the file."""
    return [
        {key: value for key, value in line.items() if key.startswith("loss/")}
        for line in metrics(run)
    ]


def assert_same_losses(one: list[dict], other: list[dict]) -> None:
    assert len(one) == len(other) == sum(STEPS.values())
    for mine, theirs in zip(one, other, strict=True):
        assert mine == pytest.approx(theirs, rel=5e-5)


def test_three_ranks_with_adam_have_the_weights_of_three_towers(three_ranks):
    adam = lambda: tf.compat.v1.train.AdamOptimizer(0.01, beta1=0.5, beta2=0.999)  # noqa: E731
    assert_close(weights(three_ranks), train_towers(3, adam, STEPS, DATA, BATCH))


def test_three_ranks_with_sgd_have_the_weights_of_three_towers(tmp_path):
    sgd = lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5)  # noqa: E731
    run = trained("mpirun", 3, tmp_path / "run", SGD)
    assert_close(weights(run), train_towers(3, sgd, STEPS, DATA, BATCH))


def test_three_ranks_report_the_losses_of_one_process(three_ranks, tmp_path):
    one = trained("single", 1, tmp_path / "run", EVERY_STEP)
    assert_same_losses(losses(three_ranks), losses(one))


def test_with_synchronised_batch_norm_too(tmp_path):
    one = trained("single", 1, tmp_path / "one", SYNC, SGD, EVERY_STEP)
    two = trained("mpirun", 2, tmp_path / "two", SYNC, SGD, EVERY_STEP)
    assert_same_losses(losses(two), losses(one))
    assert_close(weights(two), weights(one))


def test_two_ranks_train_everything_as_written_out_in_numpy(everything_on_two, in_numpy):
    found = values(everything_on_two)
    expected = in_numpy.weights["joint"]
    assert set(expected) < set(found)
    assert_close({name: found[name] for name in expected}, expected)


def test_they_report_its_losses_and_the_norms_of_its_gradients(everything_on_two, in_numpy):
    steps = [
        (stage, told, norms)
        for stage in MOVES
        for told, norms in zip(in_numpy.losses[stage], in_numpy.norms[stage], strict=True)
    ]
    for line, (stage, told, norms) in zip(metrics(everything_on_two), steps, strict=True):
        for loss in told:
            update = "discriminator" if loss == "discriminator" else "generator"
            assert line[f"loss/{loss}"] == pytest.approx(told[loss], rel=5e-5)
            norm = line[f"gradient_norm/{stage}/{update}"]
            assert norm == pytest.approx(norms[loss], rel=5e-5)


def test_an_integer_counts_on_two_ranks_as_on_one(everything_on_two):
    steps = STEPS["completion"] + STEPS["joint"]
    assert int(values(everything_on_two)["generator/passes"]) == steps
