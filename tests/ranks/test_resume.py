"""A run that was stopped goes on as if it never had been."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from hvd_gan.engine.checkpoint_files import checkpoints_in
from tests.launch import Started, train, trained
from tests.ranks.runs import assert_close, metrics, values, weights

pytestmark = pytest.mark.ranks
KEEP_ALL = ("checkpoints={every: 1, keep: 100}", "log_every=1", "model.settings={norm: plain}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on two ranks that nobody interrupted, with a checkpoint of every step."""
    return trained("mpirun", 2, tmp_path_factory.mktemp("whole") / "run", *KEEP_ALL)


def stopped_at(whole: Path, step: int, path: Path) -> Path:
    """The run as it was when it had done some steps: later checkpoints do not exist."""
    shutil.copytree(whole, path)
    for checkpoint in checkpoints_in(path / "checkpoints")[step:]:
        shutil.rmtree(checkpoint)
    return path


@pytest.mark.parametrize("step", [2, 6, 10], ids=["completion", "discriminator", "joint"])
def test_resuming_in_the_middle_of_a_stage_is_exact(whole, step, tmp_path):
    run = stopped_at(whole, step, tmp_path / "run")
    done = train("mpirun", 2, run, *KEEP_ALL)
    assert f"resumed after step {step}" in done.output
    expected, found = values(whole), values(run)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert [line["step"] for line in metrics(run)] == list(range(1, 13))


def test_two_runs_of_keras_layers_without_seeds_are_bit_identical(tmp_path):
    model = "model={build: 'tests.models.keras_gan:build'}"
    runs = [trained("mpirun", 2, tmp_path / name, model, "verify=true") for name in ("a", "b")]
    one, other = map(values, runs)
    assert any("kernel" in name for name in one)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_another_number_of_ranks_continues_the_same_order(tmp_path):
    settings = KEEP_ALL[:2]
    whole = trained("mpirun", 2, tmp_path / "whole", *settings)
    run = stopped_at(whole, 6, tmp_path / "run")
    trained("single", 1, run, *settings)
    assert_close(weights(run), weights(whole))


def pid_of_rank(rank: int, run: Path) -> int | None:
    for process in Path("/proc").iterdir():
        try:
            environ = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(run).encode() in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environ:
            return int(process.name)
    return None


def test_a_killed_rank_ends_the_job_and_the_run_can_be_resumed(tmp_path):
    run = tmp_path / "run"
    settings = ("checkpoints.every=20", "stages.completion.steps=100000")
    with Started("mpirun", run, *settings) as job:
        job.until(lambda: len(checkpoints_in(run / "checkpoints")) > 1)
        victim = pid_of_rank(1, run)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        assert job.wait() != 0
        assert time.monotonic() - killed < 10

    last = int(checkpoints_in(run / "checkpoints")[-1].name.removeprefix("step-"))
    done = train("mpirun", 2, run, "checkpoints.every=20", f"stages.completion.steps={last + 5}")
    assert done.code == 0, done.output
    assert f"resumed after step {last}" in done.output
    assert int(values(run)["hvd_gan/steps"]) == last + 5 + 3 + 4


def test_a_changed_setting_is_refused_and_named(whole):
    done = train("single", 1, whole, *KEEP_ALL, "seed=2")
    assert done.code == 2
    assert "seed: 1 -> 2" in done.output
    assert "--fresh" in done.output


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("stages.joint.steps=3", "stages.joint.steps: 4 are done already, 3 are now asked for"),
        ("stages.completion.steps=9", "stages: completion has been trained for 5 steps, and now"),
    ],
)
def test_steps_that_are_done_cannot_change(whole, override, expected):
    done = train("single", 1, whole, *KEEP_ALL, override)
    assert done.code == 2
    assert expected in done.output


def test_the_stage_that_a_run_stands_in_may_become_longer(whole, tmp_path):
    run = stopped_at(whole, 12, tmp_path / "run")
    trained("mpirun", 2, run, *KEEP_ALL, "stages.joint.steps=6")
    assert int(values(run)["hvd_gan/steps"]) == 14


def test_fresh_starts_in_a_new_folder_and_deletes_nothing(whole):
    before = sorted(path.relative_to(whole) for path in whole.rglob("*"))
    done = train("single", 1, whole, "--fresh", *KEEP_ALL, "seed=2")
    assert done.code == 0, done.output
    assert sorted(path.relative_to(whole) for path in whole.rglob("*")) == before
    fresh = whole.with_name("run-2")
    assert int(values(fresh)["hvd_gan/steps"]) == 12


def test_a_finished_run_says_so_and_trains_nothing(whole):
    before = values(whole)
    done = train("single", 1, whole, *KEEP_ALL)
    assert done.code == 0
    assert "resumed after step 12" in done.output
    assert before.keys() == values(whole).keys()
