"""What a launcher states is believed before what Horovod sees."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hvd_gan.cluster.launcher import (
    LaunchError,
    check_not_alone,
    launcher_pid,
    leave_exit_code,
    leave_start,
    stated_local_rank,
    stated_local_size,
    stated_rank,
    stated_size,
)
from tests.launch import ROOT


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (1, "")),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, (8, "OMPI_COMM_WORLD_SIZE")),
        ({"SLURM_STEP_NUM_TASKS": "4", "PMI_SIZE": "4"}, (4, "PMI_SIZE")),
        # A batch script is told the job's size, but is one process.
        ({"SLURM_NTASKS": "8"}, (1, "")),
        ({"PMI_SIZE": "nonsense"}, (1, "")),
    ],
)
def test_the_launchers_variables_are_read(environment, expected):
    assert stated_size(environment)[0] == expected[0]
    assert bool(stated_size(environment)[1]) == bool(expected[1])


def test_a_rank_that_is_alone_against_its_launchers_word_is_refused():
    with pytest.raises(LaunchError, match="OMPI_COMM_WORLD_SIZE says 8 processes"):
        check_not_alone(1, {"OMPI_COMM_WORLD_SIZE": "8"})
    check_not_alone(8, {"OMPI_COMM_WORLD_SIZE": "8"})
    check_not_alone(1, {})


def test_the_launcher_is_found_however_it_was_started(tmp_path):
    """As a program, as a script of Python's, and as a module of it."""
    rank = "from hvd_gan.cluster.launcher import launcher_pid; print(launcher_pid())"
    (tmp_path / "horovod/runner").mkdir(parents=True)
    for folder in ("horovod", "horovod/runner"):
        (tmp_path / folder / "__init__.py").touch()
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"
    for script in ("horovod/runner/launch.py", "horovodrun"):
        (tmp_path / script).write_text(start)
    for words in (["-m", "horovod.runner.launch"], ["horovodrun"]):
        launcher = subprocess.Popen(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert launcher.communicate()[0] == f"{launcher.pid}\n", words


def test_a_start_is_no_news_once_there_is_an_exit_code(tmp_path, monkeypatch):
    note = tmp_path / "note"
    note.touch()
    monkeypatch.setenv("HVD_GAN_EXIT_FILE", str(note))
    leave_start()
    assert note.read_text() == "started"
    assert leave_exit_code(75)
    leave_start()
    assert note.read_text() == "75"


BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
# As `srun --pty bash` has it, where Slurm's default is one of its PMIs.
SHELL = {
    **BATCH,
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_TASKS_PER_NODE": "1",
    "SLURM_NODEID": "0",
}
STEP = {**BATCH, "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
IN_STEP = {"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NODEID": "1"}
MPIRUN = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "3",
}
HYDRA = {"PMI_SIZE": "4", "PMI_RANK": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
GLOO = {
    "HOROVOD_SIZE": "4",
    "HOROVOD_RANK": "3",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        (MPIRUN, (3, 1, 2)),
        (HYDRA, (3, 1, 2)),
        (GLOO, (3, 1, 2)),
        ({**STEP, **IN_STEP}, (6, 2, 4)),
        ({**STEP, **IN_STEP, "PMIX_RANK": "6"}, (6, 2, 4)),
        ({**STEP, **IN_STEP, "PMI_RANK": "6", "PMI_SIZE": "8"}, (6, 2, 4)),
        # One launcher inside of another: the inner one counts.
        ({**BATCH, **MPIRUN}, (3, 1, 2)),
        ({**BATCH, **HYDRA}, (3, 1, 2)),
        ({**BATCH, **GLOO}, (3, 1, 2)),
        ({**SHELL, "PMIX_RANK": "0", **GLOO}, (3, 1, 2)),
        ({**SHELL, "PMI_RANK": "0", "PMI_SIZE": "1", **GLOO}, (3, 1, 2)),
        ({**SHELL, "PMI_RANK": "0", "PMI_SIZE": "1", **MPIRUN}, (3, 1, 2)),
        ({**SHELL, "PMIX_RANK": "0", **HYDRA}, (3, 1, 2)),
        # mpirun's daemons on other nodes are a step of their own.
        ({**STEP, **IN_STEP, **MPIRUN}, (3, 1, 2)),
        (BATCH, (None, 0, 1)),
        ({**SHELL, "PMIX_RANK": "0"}, (None, 0, 1)),
        ({}, (None, 0, 1)),
        ({**GLOO, "HOROVOD_LOCAL_SIZE": "many"}, (3, 1, 1)),
    ],
)
def test_each_rank_knows_its_place_under_each_launcher(environment, place):
    read = (stated_rank, stated_local_rank, stated_local_size)
    assert tuple(function(environment) for function in read) == place


@pytest.mark.parametrize(
    ("tasks", "sizes"),
    [("4(x2),3", [4, 4, 3, 1]), ("8", [8, 1]), ("1,2(x3)", [1, 2, 2, 2, 1]), ("x", [1])],
)
def test_the_ranks_of_each_node_of_a_slurm_step_are_counted(tasks, sizes):
    for node, size in enumerate(sizes):
        environment = {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": str(node)}
        assert stated_local_size(environment) == size


def test_no_launcher_is_found_where_there_is_none():
    assert launcher_pid() is None
