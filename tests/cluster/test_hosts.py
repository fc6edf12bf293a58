"""Training over several hosts, by each launcher: where files go, and what faults do."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hvd_gan
from hvd_gan.cluster.network import NIC
from tests.launch import ROOT, TINY, environment, trained
from tests.ranks.runs import assert_close, metrics, weights

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]
LAUNCHERS = {
    "horovodrun": ("horovodrun", "-np"),
    "gloo": ("horovodrun", "--gloo", "-np"),
    "mpirun": ("mpirun", "-np"),
}
# A minute of steps that keep no core busy.
SLOW = ("model.build=tests.models.slow:build", "stages.completion.steps=600", "log_every=1")


class Job:
    """A training with one rank on each host, in their order, started on the first or another."""

    def __init__(self, launcher, hosts, run, *settings, env=None, at=0):
        self.hosts, self.run = hosts, run
        places = ",".join(f"{host.name}:1" for host in hosts)
        start = (*LAUNCHERS[launcher], str(len(hosts)), "-H", places)
        train = (sys.executable, "-m", "hvd_gan.train", "--run", str(run), *TINY, *settings)
        self.screen = run.with_suffix(".screen")
        with self.screen.open("w") as file:
            self.process = hosts[at].start(*start, *train, output=file, cwd=ROOT, env=env)

    def said(self):
        return self.screen.read_text(errors="replace")

    def wait_for_step(self, step, seconds=120):
        deadline = time.monotonic() + seconds
        path = self.run / "metrics.jsonl"
        while not path.exists() or len(metrics(self.run)) < step:
            assert time.monotonic() < deadline and self.process.poll() is None, self.said()
            time.sleep(0.2)

    def ends(self, within):
        """The exit code, after at most so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(within)
        raise AssertionError(f"still there after {within} s: {self.said()}")

    def leaves_nothing(self, within=10):
        """No process is left on any host."""
        deadline = time.monotonic() + within
        while any(left := [host.processes() for host in self.hosts]):
            assert time.monotonic() < deadline, left
            time.sleep(0.5)


@pytest.fixture(autouse=True)
def launchers_on_the_path(monkeypatch):
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights that one rank on one host trains."""
    return weights(trained("single", 1, tmp_path_factory.mktemp("alone") / "run"))


def trains_as_alone(launcher, hosts, tmp_path, alone):
    # Rank 0's host alone sees the run folder.
    runs = tmp_path / "runs"
    runs.mkdir()
    for host in hosts[1:]:
        host.private(runs)
    job = Job(launcher, hosts, runs / "a")
    assert job.ends(180) == 0, job.said()
    assert_close(weights(job.run), alone)
    for rank, host in enumerate(hosts):
        assert f"host    {host.name}: rank {rank} on CPU" in job.said()
        if rank:
            assert host.run("ls", str(runs)).stdout == ""
    job.leaves_nothing()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_hosts_train_what_one_rank_does(launcher, two_hosts, tmp_path, alone):
    trains_as_alone(launcher, two_hosts, tmp_path, alone)


@pytest.mark.parametrize("launcher", ["horovodrun", "gloo"])
def test_three_hosts_train_what_one_rank_does(launcher, three_hosts, tmp_path, alone):
    trains_as_alone(launcher, three_hosts, tmp_path, alone)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_host_that_is_cut_off_ends_the_job_and_is_named(launcher, two_hosts, tmp_path):
    job = Job(launcher, two_hosts, tmp_path / "run", *SLOW)
    job.wait_for_step(5)
    two_hosts[1].cut()
    assert job.ends(within=30) not in (0, 2, 75), job.said()
    last = job.said().splitlines()[-1]
    assert "rank 1 of 2 on host hv2 cannot be reached any more" in last, job.said()
    job.leaves_nothing(within=30)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_host_whose_power_fails_ends_the_job_and_is_named(launcher, three_hosts, tmp_path):
    job = Job(launcher, three_hosts, tmp_path / "run", *SLOW)
    job.wait_for_step(5)
    three_hosts[2].cut()
    three_hosts[2].kill()
    assert job.ends(within=30) not in (0, 2, 75), job.said()
    assert "rank 2 of 3 on host hv3 " in job.said().splitlines()[-1], job.said()
    job.hosts = three_hosts[:2]
    job.leaves_nothing(within=30)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_rank_on_another_host_ends_the_job(launcher, two_hosts, tmp_path):
    job = Job(launcher, two_hosts, tmp_path / "run", *SLOW)
    job.wait_for_step(5)
    assert two_hosts[1].signal("KILL", "-m hvd_gan.train") > 0
    assert job.ends(within=15) not in (0, 2, 75)
    assert "rank 1 of 2 on host hv2 died without a word" in job.said()
    job.leaves_nothing()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_stuck_rank_on_another_host_ends_the_job(launcher, two_hosts, tmp_path):
    job = Job(launcher, two_hosts, tmp_path / "run", *SLOW, "--stall-timeout=30")
    job.wait_for_step(5)
    assert two_hosts[1].signal("STOP", "-m hvd_gan.train") > 0
    assert job.ends(within=45) not in (0, 2, 75)
    assert "rank 1 of 2 on host hv2 is silent, no rank has got on for 30 s" in job.said()
    job.leaves_nothing(within=30)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_signal_to_a_rank_on_another_host_saves_and_stops(launcher, two_hosts, tmp_path):
    job = Job(launcher, two_hosts, tmp_path / "run", *SLOW)
    job.wait_for_step(5)
    assert two_hosts[1].signal("USR1", "python -m hvd_gan.train") > 0
    assert job.ends(within=60) == 75, job.said()
    assert "stopped by SIGUSR1 to rank 1 on host hv2 after step" in job.said()
    job.leaves_nothing()


@pytest.mark.parametrize("launcher", ["mpirun", "gloo"])
def test_where_rank_0_is_on_another_host_than_the_launcher_the_end_is_told_alike(
    launcher, two_hosts, tmp_path
):
    job = Job(launcher, two_hosts, tmp_path / "run", *SLOW, at=1)
    job.wait_for_step(5)
    program = LAUNCHERS[launcher][0]
    assert two_hosts[1].signal("TERM", f"bin/{program} -") == 1
    assert job.ends(within=30) == 75, job.said()
    assert "the first to end" not in job.said()
    job.leaves_nothing()


def add_interface(host, name, address):
    """Adds an interface with an address that reaches nothing."""
    host.run("ip", "link", "add", name, "type", "bridge", check=True)
    host.run("ip", "addr", "add", address, "dev", name, check=True)
    host.run("ip", "link", "set", name, "up", check=True)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_interface_that_is_named_carries_everything(launcher, two_hosts, tmp_path):
    # A second interface that reaches nothing, as Docker leaves them: it may pass for a good one.
    for host in two_hosts:
        add_interface(host, "docker0", "172.17.0.1/16")
    job = Job(launcher, two_hosts, tmp_path / "run", env={NIC: "eth0"})
    assert job.ends(180) == 0, job.said()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_interface_that_is_not_there_is_refused_with_those_that_are(
    launcher, two_hosts, tmp_path
):
    job = Job(launcher, two_hosts, tmp_path / "run", env={NIC: "eth7"})
    assert job.ends(within=60) == 2
    assert "--nic eth7: host hv1 has no such network interface" in job.said()
    assert "it has eth0, lo" in job.said()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_host_that_lacks_the_interface_is_named(launcher, two_hosts, tmp_path):
    add_interface(two_hosts[0], "ib0", "10.78.0.1/24")
    job = Job(launcher, two_hosts, tmp_path / "run", "--nic=ib0", "--stall-timeout=60")
    assert job.ends(within=120) not in (0, 75)
    assert "--nic ib0: host hv2 has no such network interface" in job.said()
    job.leaves_nothing()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_host_that_cannot_be_reached_is_named(launcher, two_hosts, tmp_path):
    two_hosts[1].cut()
    job = Job(launcher, two_hosts, tmp_path / "run")
    assert job.ends(within=60) not in (0, 2, 75)
    assert "connect to host hv2" in job.said()
    job.leaves_nothing()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_host_with_another_version_is_refused_and_named(launcher, two_hosts, tmp_path):
    other = tmp_path / "__init__.py"
    installed = Path(hvd_gan.__file__)
    other.write_text(installed.read_text().replace(hvd_gan.__version__, "0.0.9"))
    two_hosts[1].run("mount", "--bind", str(other), str(installed), check=True)
    job = Job(launcher, two_hosts, tmp_path / "run")
    assert job.ends(within=120) == 2, job.said()
    expected = (
        f"rank 1 on host hv2 has hvd_gan 0.0.9, and rank 0 on host hv1 has {hvd_gan.__version__}"
    )
    assert expected in job.said()
    job.leaves_nothing()
