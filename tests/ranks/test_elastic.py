"""An elastic job goes on without a rank that it loses, and takes on one that comes.

Two names of this machine are two hosts to Horovod's driver, which gives up a host with its rank.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.launch import BIN, ROOT, TINY, environment, slow, trained
from tests.ranks.runs import assert_close, metrics, weights

pytestmark = pytest.mark.ranks
HOSTS = ("localhost:1", "127.0.0.1:1")
SETTINGS = ("stages.completion.steps=600", "checkpoints={every: 100, commit: 5}", "log_every=5")
STALL = ("--stall-timeout", "20")


class Elastic:
    """An elastic job whose hosts are lines of a file."""

    def __init__(self, folder: Path, hosts: list[str], *program: str) -> None:
        self.run = folder / "run"
        self._hosts, self._screen = folder / "hosts", folder / "screen"
        script = folder / "discover"
        script.write_text(f"#!/bin/sh\ncat {self._hosts}\n")
        script.chmod(0o755)
        self.offer(hosts)
        driver = ("--min-np", "1", "--max-np", "2", "--host-discovery-script", str(script))
        program = program or ("hvd_gan.train",)
        train = ("python", "-m", *program, "--elastic", "--run", str(self.run))
        command = (str(BIN / "horovodrun"), "-np", str(len(hosts)), *driver)
        self._job = subprocess.Popen(
            [*command, "--network-interfaces", "lo", *train, *STALL, *TINY, *SETTINGS],
            cwd=ROOT,
            env=environment(),
            stdout=self._screen.open("w"),
            stderr=subprocess.STDOUT,
        )

    @property
    def screen(self) -> str:
        return self._screen.read_text(errors="replace")

    def offer(self, hosts: list[str]) -> None:
        """What the discovery script says from now on."""
        self._hosts.write_text("\n".join(hosts) + "\n")

    def wait_until(self, text: str, times: int = 1, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while self.screen.count(text) < times:
            assert time.monotonic() < deadline and self._job.poll() is None, self.screen
            time.sleep(0.1)

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 90
        lines = self.run / "metrics.jsonl"
        while not (lines.exists() and lines.read_text().count("\n") > step / 5):
            assert time.monotonic() < deadline and self._job.poll() is None, self.screen
            time.sleep(0.05)

    def rank_on(self, host: str) -> int:
        """The process id of the rank on a host."""
        for process in psutil.Process(self._job.pid).children(recursive=True):
            words, name = process.cmdline(), process.environ().get("HOROVOD_HOSTNAME")
            if words[1:3] == ["-m", "hvd_gan.train"] and name == host:
                return process.pid
        raise AssertionError(f"no rank on {host}: {self.screen}")

    def finish(self) -> str:
        assert self._job.wait(timeout=120) == 0, self.screen
        return self.screen

    def fail(self) -> list[psutil.Process]:
        """Waits for its failure. Returns processes that are left."""
        processes = psutil.Process(self._job.pid).children(recursive=True)
        assert self._job.wait(timeout=120) != 0, self.screen
        return psutil.wait_procs(processes, timeout=10)[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return trained("single", 1, tmp_path_factory.mktemp("undisturbed") / "run", *SETTINGS)


@pytest.mark.parametrize("lost", [slow("localhost"), "127.0.0.1"])
def test_a_lost_rank_is_done_without(lost, undisturbed, tmp_path):
    job = Elastic(tmp_path, list(HOSTS))
    job.wait_for_step(30)
    os.kill(job.rank_on(lost), signal.SIGKILL)
    screen = job.finish()
    assert "batch   12 = 2 ranks x 6 images" in screen
    assert "batch   12 = 1 rank x 12 images" in screen
    assert "resumed after step" in screen
    # The same samples in the same order, whoever computed them.
    assert_close(weights(job.run), weights(undisturbed), tolerance=2e-3)
    assert [line["step"] for line in metrics(job.run)] == sorted(
        {line["step"] for line in metrics(undisturbed)}
    )


@pytest.mark.slow
def test_a_rank_that_is_stuck_ends_itself_and_is_done_without(undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT_AT", str(tmp_path / "fault"))
    job = Elastic(tmp_path, list(HOSTS), "tests.ranks.programs.faulty", "step", "sleep", "1")
    screen = job.finish()
    assert "has not got on for 20 s: it is in fault (faulty.py:" in screen
    assert "batch   12 = 1 rank x 12 images" in screen
    assert_close(weights(job.run), weights(undisturbed), tolerance=2e-3)


@pytest.mark.slow
def test_where_a_rank_was_stopped_the_job_ends_and_does_not_hang(tmp_path, monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC_TIMEOUT", "5")
    job = Elastic(tmp_path, list(HOSTS))
    job.wait_for_step(30)
    os.kill(job.rank_on("127.0.0.1"), signal.SIGSTOP)
    assert not job.fail()
    assert "has not met the other ranks in 25 s: it waits for the other ranks" in job.screen


@pytest.mark.slow
def test_a_new_rank_is_taken_on(undisturbed, tmp_path):
    job = Elastic(tmp_path, [HOSTS[0]])
    job.wait_for_step(30)
    job.offer(list(HOSTS))
    screen = job.finish()
    assert "batch   12 = 1 rank x 12 images" in screen
    assert "batch   12 = 2 ranks x 6 images" in screen
    assert_close(weights(job.run), weights(undisturbed), tolerance=2e-3)
