"""The mpirun on the PATH belongs to the library, directly or through install.sh's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hvd_gan.checks import mpi
from hvd_gan.checks.findings import Finding
from hvd_gan.checks.probe import Outcome
from tests.launch import ROOT

OPEN_MPI = ("mpirun (Open MPI) 4.1.6", "Open MPI v4.1.6, package: Debian OpenMPI")
MVAPICH = ("HYDRA build details:\n    Version:     3.2.1", "MVAPICH2 Version      :\t2.3.7")
# Writes a launcher as install.sh does.
WRAP = "eval \"$(sed -n '/^launcher()/,/^}/p' install.sh)\"; VENV=$1; launcher mpirun \"'$2'\""


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def installation(folder: Path, banner: str = OPEN_MPI[0]) -> Path:
    """An MPI: a library in lib, and an mpirun in bin."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libmpi.so.40").touch()
    return executable(folder / "bin" / "mpirun", f"echo '{banner}'")


@pytest.fixture
def venv(tmp_path, monkeypatch) -> Path:
    """The environment that doctor takes itself to be in."""
    python = executable(tmp_path / "venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return python.parent.parent


def wrap(venv: Path, real: Path) -> None:
    subprocess.run(["bash", "-ec", WRAP, "bash", venv, real], cwd=ROOT, check=True)


def judge(monkeypatch, library: Path, banner: str, *path: Path) -> Finding:
    """The first finding about mpirun, for a library that Horovod and mpi4py share."""
    alone = {"version": "4.1.2", "library": banner, "libraries": [str(library)]}
    monkeypatch.setattr(mpi, "probe", lambda *_, **__: Outcome(0, ({"alone": alone},), "", 1))
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, [*path, os.environ["PATH"]])))
    steps = {"horovod": {"libraries": [str(library)]}, "mpi4py": alone}
    return next(one for one in mpi.check_mpi(steps, launched=False) if one.name == "mpirun")


def test_the_wrapper_around_the_machines_mpirun_is_well(tmp_path, venv, monkeypatch):
    real = installation(tmp_path / "opt")
    wrap(venv, real)
    finding = judge(monkeypatch, tmp_path / "opt/lib/libmpi.so.40", OPEN_MPI[1], venv / "bin")
    assert (finding.severity, finding.detail) == ("ok", f"{venv}/bin/mpirun, Open MPI 4.1.6")


def test_a_wrapper_around_a_link_to_the_machines_mpirun_is_well(tmp_path, venv, monkeypatch):
    real, link = installation(tmp_path / "opt"), tmp_path / "links" / "mpirun"
    link.parent.mkdir()
    link.symlink_to(real)
    wrap(venv, link)
    library = tmp_path / "opt/lib/libmpi.so.40"
    assert judge(monkeypatch, library, OPEN_MPI[1], venv / "bin").severity == "ok"


def test_a_wrapper_around_another_mpi_is_made_anew(tmp_path, venv, monkeypatch):
    installation(tmp_path / "opt")
    wrap(venv, installation(tmp_path / "other"))
    finding = judge(monkeypatch, tmp_path / "opt/lib/libmpi.so.40", OPEN_MPI[1], venv / "bin")
    assert finding.severity == "warning" and "is not the one of" in finding.detail
    assert "install.sh" in finding.cure and "export PATH" not in finding.cure


def test_the_cure_for_another_mpirun_leads_to_the_wrapper(tmp_path, venv, monkeypatch):
    wrap(venv, installation(tmp_path / "opt"))
    other = installation(tmp_path / "other")
    finding = judge(monkeypatch, tmp_path / "opt/lib/libmpi.so.40", OPEN_MPI[1], other.parent)
    assert finding.severity == "warning" and finding.cure == f"export PATH={venv}/bin:$PATH"


@pytest.mark.parametrize(
    ("launcher", "library", "severity"),
    [
        (*MVAPICH, "ok"),
        (MVAPICH[0], "MPICH Version:      4.2.1", "ok"),
        (MVAPICH[0], OPEN_MPI[1], "error"),
        (OPEN_MPI[0], MVAPICH[1], "error"),
        (OPEN_MPI[0], "Open MPI v5.0.3", "error"),
    ],
)
def test_hydra_starts_all_of_its_family(launcher, library, severity, tmp_path, venv, monkeypatch):
    real = installation(tmp_path / "opt", launcher)
    finding = judge(monkeypatch, tmp_path / "opt/lib/libmpi.so.40", library, real.parent)
    assert finding.severity == severity, finding
