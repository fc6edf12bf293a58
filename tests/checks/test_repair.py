"""The cure for an environment makes that one anew, and not another."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from hvd_gan.checks import repair
from hvd_gan.checks.horovod import check_horovod
from hvd_gan.checks.probe import Outcome

MACHINE = platform.machine()
# Folders that install.sh has made.
CPU = f"horovod-0.28.1-tf2.21.0-cpu-python3.11-openmpi-5.0.11-{MACHINE}-glibc2.36-1972904039"
OTHERS = (
    f"horovod-0.28.1-tf2.15.1-cpu-python3.11-openmpi-5.0.11-{MACHINE}-glibc2.36-1972904039",
    f"horovod-0.28.1-tf2.21.0-cpu-python3.12-openmpi-5.0.11-{MACHINE}-glibc2.36-1972904039",
    f"horovod-0.28.1-tf2.21.0-cpu-python3.11-openmpi-5.0.11-system7-{MACHINE}-glibc2.36-19",
)
GPU = (
    "horovod-0.28.1-tf2.21.0-gpu-cuda12.5-nvcc12.9-cc80,90-python3.11-openmpi-5.0.11-"
    f"{MACHINE}-glibc2.36-223"
)
SYMBOL = "mpi_lib.so: undefined symbol: _ZN10tensorflow6StatusE"
GLIBC = "/lib/libm.so.6: version `GLIBC_2.38' not found (required by mpi_lib.so)"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Sets an environment up as install.sh leaves it, and a stand-in for install.sh."""
    script, venv = tmp_path / "install.sh", tmp_path / "venv"
    script.write_text('#!/bin/sh\necho "VENV=$VENV TF=$TF GPU=$GPU"\n')
    script.chmod(0o755)
    venv.mkdir()
    for name in (CPU, GPU, *OTHERS):
        (tmp_path / "cache" / name).mkdir(parents=True)
    monkeypatch.setattr(repair, "SCRIPT", script)
    monkeypatch.setattr(repair, "STAMP", venv / "install.stamp")
    monkeypatch.setattr(sys, "prefix", str(venv))
    monkeypatch.setattr(repair, "outside", lambda module: None)
    monkeypatch.setenv("HVD_GAN_CACHE", str(tmp_path / "cache"))

    def make(what: str):
        (venv / "install.stamp").write_text(f"{venv}, Python 3.11.7, {what}\nfilled by\n")
        return venv

    return make


def carried_out(cure: str) -> str:
    """What the stand-in for install.sh was told, when the cure is typed into a shell."""
    plain = {name: value for name, value in os.environ.items() if name not in ("VENV", "TF", "GPU")}
    done = subprocess.run(
        ["bash", "-ec", cure], env=plain, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def fault(cause: str) -> str:
    """The cure for what the loader says of Horovod."""
    steps = {
        "tensorflow": {"version": "2.21.0", "gpus": []},
        "horovod": {"error": f"ImportError: {cause}", "cause": cause, "module": ""},
    }
    [finding] = [
        one for one in check_horovod(Outcome(0, (steps,), "", 1)) if one.severity == "error"
    ]
    return finding.cure


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("tensorflow-cpu 2.21.0, openmpi-5.0.11", "TF=2.21.0 GPU="),
        ("tensorflow-cpu 2.15.1, mpich-4.0-system12", "TF=2.15.1 GPU="),
        ("tensorflow 2.21.0, openmpi-5.0.11", "TF=2.21.0 GPU="),
        ("tensorflow[and-cuda] 2.21.0, openmpi-5.0.11", "TF=2.21.0 GPU=1"),
    ],
)
def test_the_environment_is_made_anew_as_it_was(made, what, told):
    venv = made(what)
    assert carried_out(repair.repair()) == f"VENV={venv} {told}"
    assert not (venv / "install.stamp").exists()


def test_an_environment_of_another_maker_is_not_touched(made):
    assert "rm " not in repair.repair() and "install.sh" in repair.repair()


@pytest.mark.parametrize("cause", [SYMBOL, GLIBC])
@pytest.mark.parametrize(("kind", "wheel"), [("-cpu", CPU), ("[and-cuda]", GPU)])
def test_a_horovod_that_was_built_wrong_does_not_come_back(made, tmp_path, cause, kind, wheel):
    made(f"tensorflow{kind} 2.21.0, openmpi-5.0.11")
    carried_out(fault(cause))
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left == {CPU, GPU, *OTHERS} - {wheel}


def test_nothing_is_removed_where_nothing_was_kept(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HVD_GAN_CACHE", str(tmp_path / "nothing"))
    venv = made("tensorflow-cpu 2.21.0, openmpi-5.0.11")
    assert carried_out(fault(SYMBOL)) == f"VENV={venv} TF=2.21.0 GPU="
