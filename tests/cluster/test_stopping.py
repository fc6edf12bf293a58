"""Asking a job to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from hvd_gan.cluster import stopping
from hvd_gan.cluster.stopping import StopRequest

WAITS = """
import sys, time
from hvd_gan.cluster.stopping import StopRequest
stop = StopRequest()
stop.listen()
stop.has_started = len(sys.argv) == 1
print("ready", flush=True)
while not stop.wanted():
    time.sleep(0.01)
print(stop.reason, flush=True)
time.sleep(30)
"""


def waiting(*arguments: str) -> subprocess.Popen:
    job = subprocess.Popen(
        [sys.executable, "-c", WAITS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout.readline() == "ready\n"
    return job


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGTERM, "SIGTERM"), (signal.SIGUSR1, "SIGUSR1"), (signal.SIGINT, "Ctrl-C")],
)
def test_a_signal_is_a_wish_and_no_end(number, reason):
    job = waiting()
    job.send_signal(number)
    assert job.stdout.readline() == f"{reason}\n"
    # Launchers send theirs more than once.
    job.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert job.poll() is None
    job.kill()
    job.communicate()


def test_a_job_that_still_starts_has_nothing_to_save():
    job = waiting("starting")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=5)
    assert job.returncode == 75


def test_a_second_ctrl_c_stops_at_once():
    job = waiting()
    job.send_signal(signal.SIGINT)
    job.stdout.readline()
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=5)
    assert job.returncode == 130 and "stopped at once" in said


def test_the_time_is_up_before_it_is_up(monkeypatch):
    """Steps take a second, one of them with an evaluation twenty; 100 s are given."""
    now = [1000.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    stop = StopRequest(100.0)
    # Setting up is no pause between steps.
    now[0] += 30
    for seconds in (1, 1, 20, 1):
        assert not stop.wanted()
        now[0] += seconds
    while not stop.wanted():
        now[0] += 1
    # Twice the longest pause is kept.
    assert now[0] - 1000 == 60
    assert stop.reason == "--max-time"


def test_half_of_the_time_is_trained_whatever_a_step_takes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    stop = StopRequest(100.0)
    assert not stop.wanted()
    now[0] += 49
    assert not stop.wanted()
    now[0] += 2
    assert stop.wanted()
