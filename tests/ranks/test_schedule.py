"""Schedules beyond three stages, on real ranks."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from hvd_gan.engine.checkpoint_files import checkpoints_in
from tests.launch import launch, slow, train
from tests.ranks.runs import metrics, values, weights

pytestmark = pytest.mark.ranks


def run_schedule(launcher: str, ranks: int, run, *settings: str):
    arguments = ("--config", "tests/ranks/schedule.yaml", "--run", str(run), *settings)
    done = launch(launcher, ranks, "-m", "hvd_gan.train", *arguments)
    assert done.code == 0, done.output
    return done


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = tmp_path_factory.mktemp("schedule") / "run"
    run_schedule("mpirun", 2, run)
    return run


def test_a_cycle_comes_round_and_updates_alternate(whole):
    lines = metrics(whole)
    visits = [(line["stage"], line["stage_step"]) for line in lines]
    assert visits[:14] == [
        *[("completion-1", step) for step in (1, 2)],
        *[("both-1", step) for step in (1, 2, 3, 4, 5)],
        *[("completion-2", step) for step in (1, 2)],
        *[("both-2", step) for step in (1, 2, 3, 4, 5)],
    ]
    turns = ["generator" if "loss/joint" in line else "discriminator" for line in lines[2:7]]
    assert turns == [
        "discriminator",
        "discriminator",
        "generator",
        "discriminator",
        "discriminator",
    ]


def test_a_turn_moves_only_its_networks(whole):
    for step, moving in ((3, "discriminator/"), (5, "generator/")):
        before, after = values(whole, step - 1), values(whole, step)
        moved = {
            name
            for name in after
            if not name.startswith("hvd_gan/") and not np.array_equal(before[name], after[name])
        }
        assert moved and all(name.startswith(moving) for name in moved)


def test_a_plateau_ends_a_stage_at_the_same_step_on_all_ranks(whole):
    # The first window is the best; three more do not fall by 100.
    assert metrics(whole)[-1]["stage_step"] == 8
    assert int(values(whole)["hvd_gan/steps"]) == 14 + 8


def test_a_finished_run_stays_finished_after_a_plateau(whole):
    done = run_schedule("single", 1, whole)
    assert "resumed after step 22" in done.output
    assert int(values(whole)["hvd_gan/steps"]) == 22


def test_rates_run_over_all_visits_of_a_stage_together(whole):
    rates = [
        line["rate/completion/generator"]
        for line in metrics(whole)[:9]
        if "rate/completion/generator" in line
    ]
    parts = np.arange(4) / 4
    expected = 0.1 * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * parts)))
    np.testing.assert_allclose(rates, expected, rtol=1e-4)


@pytest.mark.parametrize("step", [4, slow(9), 19])
def test_resuming_inside_a_cycle_or_before_a_plateau_is_exact(whole, step, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    for checkpoint in checkpoints_in(run / "checkpoints")[step:]:
        shutil.rmtree(checkpoint)
    done = run_schedule("mpirun", 2, run)
    assert f"resumed after step {step}" in done.output
    expected, found = values(whole), values(run)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_a_run_starts_from_anothers_weights(whole, tmp_path):
    run = tmp_path / "run"
    still = "optimizer={name: sgd, learning_rate: 1.0e-30}"
    settings = ("--init-from", f"{whole}:7", "init.networks=[generator]", still)
    done = train("mpirun", 2, run, *settings)
    assert done.code == 0, done.output
    assert "3 variables of generator" in done.output
    taken, start = weights(run), values(whole, 7)
    for name in ("generator/in", "generator/bias", "generator/out"):
        np.testing.assert_array_equal(taken[name], start[name])
    assert not np.array_equal(taken["discriminator/in"], start["discriminator/in"])


def test_weights_that_are_not_there_are_listed(whole, tmp_path):
    norm = "model.settings={norm: plain}"
    done = train("single", 1, tmp_path / "a", "--init-from", str(whole), norm)
    assert done.code == 2
    assert "generator/norm/scale: not there" in done.output and "init.strict=false" in done.output
    done = train("single", 1, tmp_path / "a", "--init-from", str(whole), norm, "init.strict=false")
    assert done.code == 0, done.output
    assert "not taken: generator/norm/scale: not there" in done.output
