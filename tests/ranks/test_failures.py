"""One rank's failure ends them all, soon, and the last thing on the screen is its cause."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.launch import ROOT, environment, launch, slow, train
from tests.ranks.runs import values

pytestmark = pytest.mark.ranks
PROGRAM = "tests.ranks.programs.failing"


@pytest.mark.parametrize("launcher", [slow("horovodrun"), "gloo", "mpirun"])
@pytest.mark.parametrize("how", ["in_python", "in_a_step"])
def test_an_exception_is_the_last_thing_on_the_screen(launcher, how):
    done = launch(launcher, 2, "-m", PROGRAM, how, timeout=60)
    assert done.code != 0
    expected = (
        f"hvd_gan: rank 1 of 2 on host {socket.gethostname()} failed: RuntimeError: a wire was cut"
    )
    assert done.last_line.endswith(expected), done.output


@pytest.mark.parametrize("launcher", [slow("horovodrun"), "gloo", "mpirun"])
def test_a_users_mistake_is_told_once_and_last(launcher):
    done = launch(launcher, 2, "-m", PROGRAM, "agreed", timeout=60)
    assert done.code != 0
    assert "data.path: there is no such folder (rank 1 of 2 on host" in done.last_line, done.output
    assert "Traceback" not in done.output.replace('File "/', "").split("hvd_gan:")[0]


def test_a_loss_that_is_not_finite_stops_all_ranks_and_keeps_the_checkpoint(tmp_path):
    settings = ("model.settings={explode_at: 4}", "checkpoints.every=2")
    done = train("mpirun", 2, tmp_path / "run", *settings)
    assert done.code == 2
    assert "step 4, stage completion: loss/completion is nan" in done.output
    assert int(values(tmp_path / "run")["hvd_gan/steps"]) == 2


def test_what_a_models_own_code_raises_while_it_is_evaluated_is_a_failure(tmp_path):
    settings = ("model.build=tests.models.broken:measured_by_misfit", "evaluation.samples=24")
    done = train("single", 1, tmp_path / "run", *settings)
    assert done.code == 1
    assert "ValueError: operands could not be broadcast" in done.last_line, done.output
    assert "in measure\n" in done.output and "Traceback" in done.output


def test_ranks_with_different_graphs_are_refused(tmp_path):
    done = train("mpirun", 2, tmp_path / "run", "model.build=tests.models.broken:depends_on_rank")
    assert done.code == 2
    assert "rank 1 on host" in done.last_line and "another graph" in done.last_line, done.output


def test_a_launcher_of_another_mpi_is_refused_with_the_cure():
    done = subprocess.run(
        [sys.executable, "-m", "hvd_gan.train"],
        cwd=ROOT,
        env={**environment(), "OMPI_COMM_WORLD_SIZE": "8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "OMPI_COMM_WORLD_SIZE says 8 processes, but Horovod sees 1" in done.stderr
    assert "srun with --mpi=pmix" in done.stderr
    assert "Traceback" not in done.stderr
