"""Ranks agree on which GPU each takes, and on that they cannot."""

from __future__ import annotations

import pytest

from tests.launch import launch, slow, train

pytestmark = pytest.mark.ranks
SEEING = ("-m", "tests.ranks.programs.seeing")


@pytest.mark.parametrize("launcher", ["mpirun", slow("gloo")])
def test_ranks_that_see_the_same_gpus_take_different_ones(launcher):
    done = launch(launcher, 2, *SEEING, "a,b", "a,b")
    assert done.code == 0, done.output
    assert "rank 0: GPU 0" in done.output and "rank 1: GPU 1" in done.output


def test_a_rank_that_is_bound_to_a_gpu_takes_it():
    done = launch("horovodrun", 2, *SEEING, "a", "b")
    assert done.code == 0, done.output
    assert "rank 0: GPU 0" in done.output and "rank 1: GPU 0" in done.output


@pytest.mark.parametrize("launcher", [slow("horovodrun"), "mpirun", "gloo"])
def test_two_ranks_for_one_gpu_are_refused_once_in_the_last_line(launcher):
    done = launch(launcher, 2, *SEEING, "a", "a")
    assert done.code == 2, done.output
    assert "rank 1 on host" in done.last_line and "start fewer ranks" in done.last_line
    assert done.output.count("start fewer ranks") == 1
    assert "Traceback" not in done.output


def test_gpus_that_are_named_and_not_seen_are_missed_once_and_training_goes_on(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    done = train("horovodrun", 2, tmp_path / "run")
    assert done.code == 0, done.output
    assert done.output.count("CUDA_VISIBLE_DEVICES is '2,3') and TensorFlow sees none") == 1
