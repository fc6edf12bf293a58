"""How install.sh decides: the CUDA compiler for the GPU build, and when to wait for another one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.launch import ROOT

CHOOSE = """
set -euo pipefail
source <(sed '/^main /d' "$1/install.sh")
here=$1 constraints=$1/constraints/tf2.21.0.txt driver_note=
choose_cuda
printf '%s\\n' "nvcc=$nvcc" "kind=$kind" "note=$driver_note"
"""


def choose(folder: Path, release: str | None, **variables: str) -> tuple[int, str]:
    """What is chosen where the machine has nvcc of a release, or none."""
    # Alone on the PATH, so that an nvcc of this machine is not on it.
    for tool in ("bash", "sed", "dirname", "sh"):
        (folder / tool).symlink_to(shutil.which(tool))
    if release:
        nvcc = folder / "nvcc"
        nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}'")
        nvcc.chmod(0o755)
    done = subprocess.run(
        [folder / "bash", "-c", CHOOSE, "install.sh", ROOT],
        env={"PATH": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_machines_compiler_of_tensorflows_cuda_is_used(tmp_path):
    code, output = choose(tmp_path, "12.4")
    assert (code, output.splitlines()[0]) == (0, f"nvcc={tmp_path}/nvcc")
    assert re.search(r"^kind=gpu-cuda12\.\d+-nvcc12\.4-cc75,80,86,89,90$", output, re.MULTILINE)
    assert output.endswith("note=\n")


@pytest.mark.parametrize("release", [None, "11.8", "13.3"])
def test_else_the_one_from_pypi_and_it_says_which_driver_that_needs(release, tmp_path):
    code, output = choose(tmp_path, release)
    assert (code, output.splitlines()[0]) == (0, "nvcc=")
    assert re.search(r"^kind=gpu-cuda12\.\d+-nvcc13\.\d+-cc", output, re.MULTILINE)
    assert "driver 580 or newer" in output and "put nvcc of CUDA 12 on the PATH" in output


def test_the_gpus_capabilities_can_be_chosen_and_are_part_of_the_name(tmp_path):
    _, output = choose(tmp_path, None, HOROVOD_BUILD_CUDA_CC_LIST="80,90")
    assert "-cc80,90\n" in output


def test_capabilities_that_are_none_are_refused(tmp_path):
    code, output = choose(tmp_path, None, HOROVOD_BUILD_CUDA_CC_LIST="8.0;9.0")
    assert code == 1 and "8.0;9.0 is not a list of compute capabilities" in output


LOCK = """
set -euo pipefail
source <(sed '/^main /d' "$1/install.sh")
here=$2
wait_for_others
echo locked
read -r _
"""


def locking(folder: Path, path: str = "") -> subprocess.Popen:
    """An install.sh that takes the lock of a folder, says so, and holds it for a line of input."""
    return subprocess.Popen(
        ["bash", "-c", LOCK, "install.sh", ROOT, folder],
        env={"PATH": f"{path}/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("mode", [0o755, 0o555])
def test_a_second_one_waits_for_the_first(mode, tmp_path):
    (tmp_path / "install.sh").touch(mode)
    first = locking(tmp_path)
    assert first.stdout.readline() == "locked\n"
    second = locking(tmp_path)
    assert second.stdout.readline() == "Waiting for another install.sh to finish\n"
    assert first.communicate("end\n")[0] == "" and first.returncode == 0
    assert second.communicate("end\n")[0] == "locked\n" and second.returncode == 0


def test_where_files_cannot_be_locked_it_goes_on_without(tmp_path):
    (tmp_path / "install.sh").touch()
    (tmp_path / "flock").write_text("#!/bin/sh\necho 'flock: 9: Bad file descriptor' >&2; exit 65")
    (tmp_path / "flock").chmod(0o755)
    one = locking(tmp_path, f"{tmp_path}:")
    assert one.communicate("end\n")[0] == "locked\n" and one.returncode == 0
