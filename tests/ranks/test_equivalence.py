"""Many ranks train what one process, or towers with averaged gradients, would."""

from __future__ import annotations

import pytest
import tensorflow as tf

from hvd_gan.config import DataSettings
from tests.launch import slow, trained
from tests.ranks.runs import assert_close, largest_difference, weights
from tests.ranks.towers import train_towers

pytestmark = pytest.mark.ranks
SCHEDULE = {"completion": 5, "discriminator": 3, "joint": 4}
DATA = DataSettings.model_validate(
    {
        "source": "digits",
        "image_size": 32,
        "flip": False,
        "hole": {"min": 10, "max": 16, "place": "centre"},
    }
)
OPTIMIZERS = {
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.01, beta1=0.5, beta2=0.999),
    "sgd": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5),
}
SETTINGS = {
    "adam": "optimizer={name: adam, learning_rate: 0.01}",
    "sgd": "optimizer={name: sgd, learning_rate: 0.5}",
}


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    return trained("single", 1, tmp_path_factory.mktemp("one") / "run")


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_two_ranks_have_the_weights_of_two_towers(name, tmp_path):
    run = trained("mpirun", 2, tmp_path / "run", SETTINGS[name])
    expected = train_towers(2, OPTIMIZERS[name], SCHEDULE, DATA, batch=12)
    assert_close(weights(run), expected)


@pytest.mark.slow
def test_three_ranks_have_the_weights_of_one_process(one_process, tmp_path):
    run = trained("mpirun", 3, tmp_path / "run")
    assert_close(weights(run), weights(one_process))


def test_the_weights_do_move(one_process):
    start = train_towers(1, OPTIMIZERS["adam"], {}, DATA, batch=12)
    assert largest_difference(weights(one_process), start) > 0.01


def test_accumulated_passes_are_one_large_batch(one_process, tmp_path):
    run = trained("mpirun", 2, tmp_path / "run", "backward_passes_per_step=3")
    assert_close(weights(run), weights(one_process))


def test_compressed_gradients_stay_close(one_process, tmp_path):
    run = trained("mpirun", 2, tmp_path / "run", "compression=fp16", SETTINGS["sgd"])
    plain = train_towers(2, OPTIMIZERS["sgd"], SCHEDULE, DATA, batch=12)
    difference = largest_difference(weights(run), plain)
    assert 0 < difference < 1e-2


@pytest.mark.parametrize("kind", ["sync", slow("plain")])
def test_only_synchronised_batch_norm_sees_the_whole_batch(kind, tmp_path):
    norm = f"model.settings={{norm: {kind}}}"
    sgd = SETTINGS["sgd"]
    one = weights(trained("single", 1, tmp_path / "one", norm, sgd))
    two = weights(trained("mpirun", 2, tmp_path / "two", norm, sgd))
    assert "generator/norm/moving_mean" in one
    if kind == "sync":
        assert_close(one, two)
    else:
        assert largest_difference(one, two) > 1e-4
