"""A probe's death and its silence are told by the phase in which they came."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from hvd_gan.checks.probe import probe

PROBES = {
    "well": "report(found=argument['given'])\n    return 0",
    "raises": "raise OSError('no such wire')",
    "crashes": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "time.sleep(60)",
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name, body in PROBES.items():
        head = (
            "import os, signal, time\ndef main(report, argument):\n    report(phase='thinking')\n"
        )
        (tmp_path / f"probe_that_{name}.py").write_text(f"{head}    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name, **options: probe(f"probe_that_{name}", {"given": 7}, **options)


def test_what_it_reports_comes_back(run):
    outcome = run("well")
    assert outcome.code == 0 and outcome.results["found"] == 7


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("raises", "ended with code 1: OSError: no such wire"),
        ("crashes", "crashed: SIGSEGV"),
        ("hangs", "hung: nothing for 1 s"),
    ],
)
def test_a_bad_end_is_told_with_its_phase(run, name, how):
    outcome = run(name, silence=1)
    assert outcome.how == how and outcome.phase == "thinking"


def test_the_launchers_sigterm_ends_it_and_leaves_what_was_reported(run):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    started = time.monotonic()
    outcome = run("hangs", silence=60)
    assert outcome.interrupted and time.monotonic() - started < 10
    assert outcome.phase == "thinking"
