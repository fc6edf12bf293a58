"""A VAE-GAN's noise and its balanced rates do not depend on the number of ranks."""

from __future__ import annotations

import pytest

from tests.launch import launch
from tests.ranks.runs import assert_close, largest_difference, metrics, values

pytestmark = pytest.mark.ranks
NETWORKS = ("encoder/", "generator/", "discriminator/")
SETTINGS = (
    "batch=8",
    "deterministic=true",
    "log_every=1",
    "evaluation.samples=0",
    "model.settings={width: 0.05, latent: 6, balance: true, batch_norm: sync}",
    "optimizer={name: sgd, learning_rate: 0.001}",
    "stages.joint.updates.discriminator.optimizer={name: sgd, learning_rate: 0.01}",
    "stages.reconstruction.steps=4",
    "stages.discriminator.steps=2",
    "stages.joint.steps=4",
    "checkpoints={every: 4, keep: 9}",
)


def train(launcher, ranks, run):
    arguments = ("-m", "hvd_gan.train", "--preset", "vae-gan-demo", "--run", str(run), *SETTINGS)
    done = launch(launcher, ranks, *arguments)
    assert done.code == 0, done.output
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vae-gan")
    return train("single", 1, folder / "one"), train("mpirun", 2, folder / "two")


def weights(run, step=None):
    found = values(run, step)
    return {name: value for name, value in found.items() if name.startswith(NETWORKS)}


def test_two_ranks_have_the_weights_of_one(runs):
    one, two = map(weights, runs)
    assert {name.split("/")[0] + "/" for name in one} == set(NETWORKS)
    assert_close(one, two)
    assert largest_difference(one, weights(runs[0], 4)) > 1e-4


def test_all_networks_have_moved_and_both_report_the_same_rates(runs):
    lines = [metrics(run) for run in runs]
    rates = [key for key in lines[0][-1] if key.startswith("rate/")]
    assert len(rates) == 3
    for one, two in zip(*lines, strict=True):
        for key in one:
            if key.startswith(("rate/", "loss/")):
                assert two[key] == pytest.approx(one[key], rel=1e-4)
    stated = {"joint/encoder": 0.001, "joint/generator": 0.001, "joint/discriminator": 0.01}
    for update, rate in stated.items():
        assert 0 < lines[0][-1][f"rate/{update}"] < rate
