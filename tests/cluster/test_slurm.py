"""The job scripts on a real Slurm of several hosts: they train, resume, end with their ranks."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest

from tests.cluster import namespaces
from tests.cluster.slurm import missing, slurm
from tests.launch import BIN, ROOT, TINY, environment, trained
from tests.ranks.runs import metrics, values

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]
LAUNCHERS = ("srun", "mpirun")
TRAIN = "jobs/train.sbatch"
# 20 s of steps that keep no core busy.
SLOW = (
    "model.build=tests.models.slow:build",
    "stages.completion.steps=200",
    "checkpoints.every=20",
    "log_every=1",
)


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    """A function that starts a Slurm with some nodes, which are called hv2, hv3, ..."""
    if reason := namespaces.missing() or missing():
        pytest.skip(reason)
    for name, value in {**environment(), "HVD_GAN_VENV": str(BIN.parent)}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path_factory.mktemp("slurm")
    with contextlib.ExitStack() as stack:

        def start(nodes=2):
            hosts = stack.enter_context(namespaces.hosts(nodes + 1, folder / "etc"))
            return stack.enter_context(slurm(hosts, folder / "slurm"))

        yield start


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The variables of a run that nobody interrupted."""
    return values(trained("mpirun", 2, tmp_path_factory.mktemp("whole") / "run", *SLOW))


class Job:
    """A training on two nodes, one rank on each."""

    def __init__(self, slurm, folder, launcher, *settings, options=()):
        self.slurm, self.run, self.screen = slurm, folder / "run", folder / "screen.txt"
        sbatch = ("--nodes=2", "--output", str(self.screen), *options)
        train = ("--run", str(self.run), *TINY, *settings)
        self.number = slurm.submit(*sbatch, TRAIN, *train, cwd=ROOT, env={"LAUNCHER": launcher})

    def wait_for_step(self, step, seconds=120):
        deadline = time.monotonic() + seconds
        while len(self.metrics()) < step:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def metrics(self):
        return metrics(self.run) if (self.run / "metrics.jsonl").exists() else []

    def said(self):
        return self.screen.read_text(errors="replace") if self.screen.exists() else ""

    def ends(self, seconds=240):
        """Waits for the end, and returns what Slurm says of it."""
        return self.slurm.wait(self.number, seconds=seconds)

    def assert_resumed(self, undisturbed):
        """Every step was made once, and made what it would have made without the interruption."""
        assert "resumed after step" in self.said()
        assert [line["step"] for line in self.metrics()] == list(range(1, 208))
        found = values(self.run)
        assert found.keys() == undisturbed.keys()
        for name in found:
            np.testing.assert_array_equal(found[name], undisturbed[name], err_msg=name)


@pytest.mark.parametrize(
    ("launcher", "says"),
    [
        ("auto", "ranks start by srun: Slurm's PMIx starts this MPI"),
        ("mpirun", "ranks start by mpirun"),
    ],
)
def test_a_job_trains_on_two_nodes(cluster, launcher, says, tmp_path):
    job = Job(cluster(), tmp_path, launcher)
    assert job.ends()["JobState"] == "COMPLETED", job.said()
    assert says in job.said()
    assert "host    hv2: rank 0" in job.said() and "host    hv3: rank 1" in job.said()
    assert int(values(job.run)["hvd_gan/steps"]) == 12


def test_slurm_accepts_every_script_as_it_is(cluster):
    login = cluster().login
    for script in sorted((ROOT / "jobs").glob("*.sbatch")):
        done = login.run("sbatch", "--test-only", "--nodes=2", str(script))
        assert done.returncode == 0 and "to start at" in done.stdout, done.stdout


def test_a_time_limit_is_survived(cluster, undisturbed, tmp_path):
    limit = ("--time=1", "--signal=B:USR1@40")
    job = Job(cluster(), tmp_path, "srun", *SLOW, options=limit)
    ended = job.ends()
    assert ended["JobState"] == "COMPLETED", job.said()
    assert int(ended["Restarts"]) >= 1
    assert "SIGUSR1: the ranks save and stop" in job.said()
    job.assert_resumed(undisturbed)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_signal_saves_requeues_and_resumes(cluster, launcher, undisturbed, tmp_path):
    slurm = cluster()
    job = Job(slurm, tmp_path, launcher, *SLOW)
    job.wait_for_step(30)
    slurm.login.run("scancel", "--batch", "--signal=USR1", job.number, check=True)
    ended = job.ends()
    assert (ended["JobState"], ended["Restarts"]) == ("COMPLETED", "1"), job.said()
    assert "stopped by SIGUSR1" in job.said()
    job.assert_resumed(undisturbed)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_preempted_job_goes_on_when_the_nodes_are_free(cluster, launcher, undisturbed, tmp_path):
    slurm = cluster()
    job = Job(slurm, tmp_path, launcher, *SLOW, options=("--exclusive",))
    job.wait_for_step(30)
    urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null")
    slurm.submit(*urgent, "--wrap", "sleep 3", cwd=ROOT)
    ended = job.ends()
    assert ended["JobState"] == "COMPLETED" and int(ended["Restarts"]) >= 1, job.said()
    job.assert_resumed(undisturbed)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_cancelled_job_is_not_started_again(cluster, launcher, tmp_path):
    slurm = cluster()
    job = Job(slurm, tmp_path, launcher, *SLOW)
    job.wait_for_step(3)
    slurm.login.run("scancel", job.number, check=True)
    assert job.ends()["JobState"] == "CANCELLED"
    time.sleep(10)
    shown = slurm.show(job.number)
    assert (shown["JobState"], shown["Restarts"]) == ("CANCELLED", "0"), job.said()


def test_a_job_whose_time_was_up_by_choice_is_not_started_again(cluster, tmp_path):
    slurm = cluster()
    job = Job(slurm, tmp_path, "srun", *SLOW, "--max-time=25")
    shown = job.ends()
    assert (shown["ExitCode"], shown["Restarts"]) == ("75:0", "0"), job.said()
    assert "stopped by --max-time" in job.said()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_rank_ends_the_job_soon(cluster, launcher, tmp_path):
    slurm = cluster()
    job = Job(slurm, tmp_path, launcher, *SLOW)
    job.wait_for_step(3)
    assert slurm.nodes[1].signal("KILL", "-m hvd_gan.train") > 0
    killed = time.monotonic()
    assert job.ends(seconds=30)["JobState"] == "FAILED"
    assert time.monotonic() - killed < 20
    assert "rank 1 of 2 on host hv3 died" in job.said()
    time.sleep(1)
    assert [node.processes("hvd_gan") for node in slurm.nodes] == [{}, {}]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_lost_node_is_replaced(cluster, launcher, undisturbed, tmp_path):
    slurm = cluster(nodes=3)
    job = Job(slurm, tmp_path, launcher, *SLOW)
    job.wait_for_step(50)
    lost = next(node for node in slurm.nodes if node.name == "hv3")
    lost.kill()
    ended = job.ends()
    assert ended["JobState"] == "COMPLETED" and int(ended["Restarts"]) >= 1, job.said()
    assert ended["NodeList"] == "hv[2,4]"
    job.assert_resumed(undisturbed)


def test_a_sweep_trains_every_line_and_resumes_one(cluster, tmp_path):
    slurm = cluster()
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{SLOW[0]} stages.completion.steps=100 log_every=1\n'seed=2'\n")
    output = ("--nodes=1", f"--output={tmp_path}/%a.txt")
    arguments = (str(lines), str(tmp_path / "runs"), *TINY)
    array = slurm.submit("--array=1-2", *output, "jobs/sweep.sbatch", *arguments, cwd=ROOT)
    started = tmp_path / "runs/1/metrics.jsonl"
    deadline = time.monotonic() + 120
    while not started.exists():
        assert time.monotonic() < deadline, [path.read_text() for path in tmp_path.glob("*.txt")]
        time.sleep(0.2)
    slurm.login.run("scancel", "--batch", "--signal=USR1", f"{array}_1", check=True)
    restarts = []
    for element in ("1", "2"):
        ended = slurm.wait(f"{array}_{element}", seconds=240)
        assert ended["JobState"] == "COMPLETED", (tmp_path / f"{element}.txt").read_text()
        restarts.append(ended["Restarts"])
    assert restarts == ["1", "0"]
    assert int(values(tmp_path / "runs/1")["hvd_gan/steps"]) == 107
    assert "seed: 2" in (tmp_path / "runs/2/settings.yaml").read_text()


# In place of training: what each rank sees of the node.
LOOK = """
import os
from pathlib import Path

from mpi4py import MPI

text = f"{os.uname().nodename} {os.environ.get('CUDA_VISIBLE_DEVICES')}"
Path(f"seen-{MPI.COMM_WORLD.rank}").write_text(text)
"""


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("gpus", "bound"), [("--gpus-per-task=1", True), ("--gres=gpu:2", False)], ids=["task", "node"]
)
def test_ranks_see_the_gpus_that_they_take(cluster, launcher, gpus, bound, tmp_path):
    (tmp_path / "hvd_gan").mkdir()
    (tmp_path / "hvd_gan/__init__.py").touch()
    (tmp_path / "hvd_gan/train.py").write_text(LOOK)
    slurm = cluster()
    options = ("--nodes=2", "--ntasks-per-node=2", gpus, f"--output={tmp_path}/screen.txt")
    script = str(ROOT / TRAIN)
    job = slurm.submit(*options, script, cwd=tmp_path, env={"LAUNCHER": launcher})
    assert slurm.wait(job)["JobState"] == "COMPLETED", (tmp_path / "screen.txt").read_text()
    seen = [(tmp_path / f"seen-{rank}").read_text() for rank in range(4)]
    if bound and launcher == "srun":
        # One GPU each: it is the rank's, whatever its local rank.
        assert seen == ["hv2 0", "hv2 1", "hv3 0", "hv3 1"]
    else:
        # All GPUs of the node: the local rank chooses.
        assert seen == ["hv2 0,1", "hv2 0,1", "hv3 0,1", "hv3 0,1"]
