"""Faults on one rank, for real, at every moment: the job ends, says which rank it was, and goes on.

`make chaos` runs the whole table; `make test` one case of each kind.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.launch import TINY, Finished, Started, command, environment, launch, slow, train
from tests.ranks.runs import unused_segments, values

pytestmark = pytest.mark.ranks
SETTINGS = ("checkpoints.every=2", "evaluation.samples=24", "model.settings={measured: true}")
PHASES = (
    "import",
    "start",
    "data",
    "graph",
    "broadcast",
    "step",
    "evaluation",
    "checkpoint",
    "end",
)
ENDS_WITHIN = 10
HOST = socket.gethostname()


@dataclass(frozen=True)
class Fault:
    """How a job with a fault in it has ended, and how long after the fault."""

    done: Finished
    seconds: float
    run: Path


def with_fault(launcher, phase, kind, rank, folder, ranks=2, **options) -> Fault:
    moment = folder / "fault"
    os.environ["FAULT_AT"] = str(moment)
    temporary = folder / "tmp"
    temporary.mkdir()
    segments = unused_segments()
    arguments = ("-m", "tests.ranks.programs.faulty", phase, kind, str(rank), *TINY, *SETTINGS)
    stall = ("--stall-timeout", str(options.pop("stall", 60)))
    run = folder / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        done = launch(launcher, ranks, *arguments, "--run", str(run), *stall, timeout=150)
    ended = time.time()
    assert not list(temporary.iterdir())
    assert unused_segments() <= segments
    assert moment.exists(), f"the fault did not happen: {done.output}"
    return Fault(done, ended - float(moment.read_text()), run)


def check(fault: Fault, rank: int, whole: bool = True) -> None:
    """Ended together, soon, with the rank's name at the bottom and nothing left behind."""
    assert fault.done.code not in (0, 75), fault.done.output
    assert f"rank {rank} " in fault.done.last_line and HOST in fault.done.last_line, (
        fault.done.output
    )
    assert fault.seconds < ENDS_WITHIN, f"{fault.seconds} s: {fault.done.output}"
    assert not left_over(fault.run), fault.done.output
    assert not (whole and list(fault.run.rglob("*partial*")))


def left_over(run: Path) -> list[psutil.Process]:
    """Processes of the job that are still there."""
    alive = []
    for process in psutil.process_iter():
        try:
            if str(run) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.Error:
            continue
    _, alive = psutil.wait_procs(alive, timeout=2)
    return alive


@pytest.mark.parametrize(
    ("launcher", "phase", "kind", "rank"),
    [
        ("mpirun", "graph", "raise", 0),
        ("mpirun", "step", "kill", 0),
        ("mpirun", "step", "kill", 1),
        ("mpirun", "end", "kill", 1),
        ("mpirun", "step", "memory", 1),
        ("mpirun", "step", "exit", 1),
        ("gloo", "import", "kill", 1),
        ("gloo", "evaluation", "raise", 1),
        ("gloo", "step", "kill", 0),
    ],
)
def test_a_fault_ends_all_ranks(launcher, phase, kind, rank, tmp_path):
    check(with_fault(launcher, phase, kind, rank, tmp_path), rank)


@pytest.mark.chaos
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["raise", "kill"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("launcher", ["mpirun", "gloo"])
def test_every_fault_at_every_phase_under_every_launcher(launcher, phase, kind, rank, tmp_path):
    if phase == "checkpoint" and rank == 1:
        pytest.skip("rank 0 alone writes checkpoints")
    fault = with_fault(launcher, phase, kind, rank, tmp_path)
    check(fault, rank, whole=(phase, kind) != ("checkpoint", "kill"))


def test_a_killed_mpirun_leaves_nothing_in_its_temporary_folder(tmp_path, monkeypatch):
    temporary, segments = tmp_path / "tmp", unused_segments()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Started("mpirun", tmp_path / "run", "stages.completion.steps=100000") as job:
        [launcher] = psutil.Process(job.process.pid).children()
        assert list(temporary.rglob("pmix.*"))
        launcher.kill()
        assert job.wait() != 0
    assert not list(temporary.iterdir())
    assert unused_segments() <= segments


def test_an_mpirun_starts_where_another_of_its_process_id_was_killed():
    """In a container that starts again, process ids come again too."""
    folder = f"{tempfile.gettempdir()}/ompi.$$"
    leftovers = f"mkdir {folder} && touch {folder}/pmix.{HOST}.tool.$$ && echo {folder}"
    mpirun = " ".join(command("mpirun", 1)[:-1])
    for supervisor, code in (((), 213), (("-m", "hvd_gan.launch"), 0)):
        python = [sys.executable, *supervisor] if supervisor else ["env", "HVD_GAN_SUPERVISED=1"]
        done = subprocess.run(
            [*python, "sh", "-c", f"{leftovers}; exec {mpirun} true"],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        shutil.rmtree(done.stdout.splitlines()[0], ignore_errors=True)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize("launcher", ["mpirun", slow("gloo")])
def test_the_first_of_four_ranks_to_fail_is_named_and_the_same_command_goes_on(launcher, tmp_path):
    fault = with_fault(launcher, "step", "raise", 2, tmp_path, ranks=4)
    check(fault, 2)
    assert "failed: RuntimeError: a wire was cut" in fault.done.last_line
    words = {rank: (fault.run / f"log/rank-{rank}.txt").read_text() for rank in range(4)}
    assert "in fault\n" in words[2] and "RuntimeError: a wire" in words[2]
    # Where they stood, or what they fell over when rank 2 had gone.
    assert all("Thread MainThread" in words[rank] or "Traceback" in words[rank] for rank in words)
    assert int(values(fault.run)["hvd_gan/steps"]) == 2
    assert train(launcher, 4, fault.run, *SETTINGS).code == 0
    assert int(values(fault.run)["hvd_gan/steps"]) == 12


@pytest.mark.chaos
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["stop", "sleep"])
@pytest.mark.parametrize("phase", ["graph", "step", "evaluation"])
@pytest.mark.parametrize("launcher", ["mpirun", "gloo"])
def test_a_rank_that_hangs_ends_the_job_in_time(launcher, phase, kind, rank, tmp_path):
    _hang(launcher, phase, kind, rank, tmp_path)


def test_a_stopped_rank_ends_the_job_in_time_and_is_named(tmp_path):
    assert "is silent" in _hang("mpirun", "step", "stop", 1, tmp_path)


def test_a_rank_that_sleeps_ends_the_job_in_time_and_is_named_with_its_function(tmp_path):
    assert "in fault (faulty.py:" in _hang("gloo", "step", "sleep", 1, tmp_path)


def _hang(launcher, phase, kind, rank, folder) -> str:
    stall = 20
    fault = with_fault(launcher, phase, kind, rank, folder, stall=stall)
    assert fault.done.code not in (0, 75)
    assert f"rank {rank} " in fault.done.last_line, fault.done.output
    # Its launcher gives a process that does not listen some seconds, and so do we.
    assert fault.seconds < stall + 1.5 * ENDS_WITHIN
    assert not left_over(fault.run), fault.done.output
    return fault.done.last_line
