"""Facts come from any machine, in whatever state it is, by Python's own library alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hvd_gan.checks import survey

MIB = 2**20


def surveyed(folder: Path, **variables: str) -> dict:
    """What a Python without any packages finds in a folder that is removed then."""
    program = f"import json; exec(open({survey.__file__!r}).read()); print(json.dumps(survey()))"
    inside = ("sh", "-c", 'cd "$0"; rmdir "$0"; exec "$@"', str(folder))
    done = subprocess.run(
        [*inside, sys.executable, "-I", "-S", "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_working_folder_that_was_removed_and_an_empty_tmpdir_are_borne(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    found = surveyed(gone, TMPDIR="")
    assert found["cwd"] == "" and found["tmp"]["path"] == "/tmp"
    assert found["cpus"] == sorted(os.sched_getaffinity(0))


def test_a_name_that_cannot_be_a_hosts_has_no_address():
    assert survey.resolve("a..b") == survey.resolve("a" * 70) == ""
    assert survey.resolve("localhost") == "127.0.0.1"


def test_memory_is_known_without_procs_list(tmp_path):
    found = survey.memory(str(tmp_path), str(tmp_path))
    total = psutil.virtual_memory().total
    assert found["total"] == pytest.approx(total, rel=0.01) and 0 < found["free"] <= total


def test_files_that_were_read_do_not_use_a_containers_memory_up(tmp_path):
    (tmp_path / "memory.max").write_text(f"{64 * MIB}\n")
    (tmp_path / "memory.current").write_text(f"{64 * MIB}\n")
    found = survey.memory(cgroup=str(tmp_path))
    assert found == {"total": 64 * MIB, "free": 0}
    (tmp_path / "memory.stat").write_text(f"anon {24 * MIB}\ninactive_file {40 * MIB}\n")
    assert survey.memory(cgroup=str(tmp_path)) == {"total": 64 * MIB, "free": 40 * MIB}
    (tmp_path / "memory.max").write_text("max\n")
    assert survey.memory(cgroup=str(tmp_path))["total"] > 64 * MIB


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]")), reason="there is a GPU")
def test_nvidias_tools_without_a_gpu_are_told_from_a_driver_that_fails(tmp_path, monkeypatch):
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "{said}"; exit 9\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert survey.gpus() == {"names": [], "problem": said, "devices": []}
