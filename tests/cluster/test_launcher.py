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


def test_no_launcher_is_found_where_there_is_none():
    assert launcher_pid() is None
