"""What loading has shown is judged: versions, builds, and what has changed since the set-up."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import horovod
import pytest

from hvd_gan.checks import installed, repair
from hvd_gan.checks.probe import Outcome
from tests.launch import ROOT

TENSORFLOW = json.loads((Path(horovod.__file__).parent / "metadata.json").read_text())["tensorflow"]
STEPS = {
    "numpy": {"version": "2.4.6"},
    "tensorflow": {"version": TENSORFLOW, "cuda": False, "gpus": []},
    "gpu": {},
    "horovod": {
        "version": "0.28.1",
        "mpi": True,
        "gloo": True,
        "nccl": False,
        "libraries": ["/venv/lib/libmpi.so.40"],
    },
    "mpi4py": {"version": "4.1.2", "library": "Open MPI v5.0.11", "libraries": []},
    "package": {},
}


@pytest.fixture
def judged(monkeypatch):
    monkeypatch.setattr(installed, "check_mpi", lambda *_: [])

    def judge(code: int | None = 0, until: str = "package", **changes) -> dict:
        reports = []
        for step, facts in STEPS.items():
            reports += [{"phase": step}, {step: {**facts, **changes.get(step, {})}}]
            if step == until and code != 0:
                reports.pop()
                break
        outcome = Outcome(code, tuple(reports), "", 300)
        monkeypatch.setattr(installed, "probe", lambda *_: outcome)
        findings, _ = installed.check_installed(launched=False)
        return {finding.name: finding for finding in findings}

    return judge


def test_what_loads_and_fits_is_well(judged):
    found = judged()
    for name in ("python", "numpy", "tensorflow", "horovod", "hvd_gan"):
        assert found[name].severity == "ok"


@pytest.mark.parametrize(
    ("severity", "words", "changes"),
    [
        ("warning", "host memory", {"tensorflow": {"gpus": ["GPU:0"], "cuda": "12.9"}}),
        ("note", "Gloo only", {"horovod": {"mpi": False}}),
        ("error", "neither MPI nor Gloo", {"horovod": {"mpi": False, "gloo": False}}),
        ("warning", "it loads, and may fail", {"tensorflow": {"version": "2.99.0"}}),
    ],
)
def test_a_horovod_of_another_build_is_told(judged, severity, words, changes):
    finding = judged(**changes)["horovod"]
    assert finding.severity == severity and words in finding.detail and finding.cure


@pytest.mark.parametrize(
    ("until", "name", "code", "words"),
    [
        ("tensorflow", "tensorflow", -4, "crashed: SIGILL"),
        ("horovod", "horovod", -11, "loading it crashed: SIGSEGV"),
        ("horovod", "horovod", None, "loading it hung"),
        ("package", "hvd_gan", -6, "importing it crashed: SIGABRT"),
    ],
)
def test_a_crash_is_told_of_the_part_that_crashed(judged, until, name, code, words):
    found = judged(code, until)
    errors = [finding for finding in found.values() if finding.severity == "error"]
    assert [finding.name for finding in errors] == [name]
    assert words in errors[0].detail


def test_a_python_that_is_too_new_is_an_error(judged, monkeypatch):
    monkeypatch.setattr(installed, "PYTHONS", ((3, 8), (3, 9)))
    assert judged()["python"].severity == "error"


def test_versions_that_nobody_has_tested_are_noted(judged):
    finding = judged(tensorflow={"version": "2.99.0"})["packages"]
    assert "not tested with TensorFlow 2.99.0" in finding.detail
    # What install.sh says itself of a version that it does not know.
    refusal = subprocess.run(
        [ROOT / "install.sh"],
        env={**os.environ, "TF": "2.99.0"},
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    known = refusal.rpartition("these are: ")[2].split()
    assert known and finding.cure.endswith(f"takes one of {', '.join(known)}")
    assert judged()["packages"].severity in ("ok", "note")


def test_a_tensorflow_that_was_changed_after_the_set_up_is_told(judged, monkeypatch, tmp_path):
    stamp = tmp_path / "install.stamp"
    stamp.write_text("/venv, Python 3.0.1, tensorflow-cpu 2.3.4, openmpi-5.0.11\nmore\n")
    monkeypatch.setattr(repair, "STAMP", stamp)
    finding = judged()["environment"]
    assert finding.severity == "warning"
    assert f"TensorFlow {TENSORFLOW}, was 2.3.4" in finding.detail
