"""Doctor on real ranks: rank 0 prints for all, and every rank ends with the same code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.launch import BIN, ROOT, environment, launch
from tests.test_doctor import broken_horovod

pytestmark = pytest.mark.ranks


def findings(output: str) -> dict[str, dict]:
    """The findings by name, from JSON with or without a launcher's tags."""
    plain = re.sub(r"^\[[\d,]+\]<stdout>: ?", "", output, flags=re.MULTILINE)
    start, end = plain.index("[\n"), plain.rindex("\n]")
    return {finding["name"]: finding for finding in json.loads(plain[start : end + 2])}


def on_two_paths(first: str, second: str, *flags: str) -> subprocess.CompletedProcess:
    """Doctor on two ranks, each with a PYTHONPATH of its own."""
    command = [str(BIN / "mpirun"), "--oversubscribe"]
    for number, path in enumerate((first, second)):
        command += [":"] * number + ["-np", "1", "-x", f"PYTHONPATH={path}"]
        command += [sys.executable, "-m", "hvd_gan.doctor", "--quick", *flags]
    # From /, as Python looks for modules in the working folder first.
    return subprocess.run(
        command,
        cwd="/",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["mpirun", "gloo"])
def test_the_ranks_are_compared_measured_and_trained(launcher):
    done = launch(launcher, 2, "-m", "hvd_gan.doctor", "--json", timeout=280)
    found = findings(done.output)
    assert [row["rank"] for row in found["ranks"]["rows"]] == [0, 1]
    assert found["versions"]["severity"] == found["code"]["severity"] == "ok"
    rows = found["network"]["rows"]
    assert [row["size"] for row in rows] == ["4 B", "4 kB", "256 kB", "4 MB", "64 MB"]
    assert all(row["ms"] > 0 and row["GB/s"] > 0 for row in rows)
    assert all((row["MPI ms"] is None) == (launcher == "gloo") for row in rows)
    assert rows[-1]["ms"] > rows[0]["ms"]
    assert found["training"]["severity"] == "ok"
    assert "weights equal on all 2 ranks" in found["training"]["detail"]
    assert done.output.count('"name": "python"') == 1
    assert (done.code == 0) == all(one["severity"] in ("ok", "note") for one in found.values())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each rank")
def test_ranks_that_are_bound_to_a_core_each_are_not_short_of_cores():
    command = [str(BIN / "mpirun"), "--bind-to", "core", "-np", "2", sys.executable]
    done = subprocess.run(
        [*command, "-m", "hvd_gan.doctor", "--json", "--quick"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    cores = findings(done.stdout)["cores"]
    assert cores["severity"] == "ok", cores
    assert "1 thread for each of 2 ranks" in cores["detail"]


def test_a_rank_with_other_code_is_named_with_the_file(tmp_path):
    shutil.copytree(ROOT / "hvd_gan", tmp_path / "hvd_gan")
    with (tmp_path / "hvd_gan" / "models" / "losses.py").open("a") as file:
        file.write("# another\n")
    done = on_two_paths(str(ROOT), str(tmp_path), "--json")
    code = findings(done.stdout)["code"]
    assert done.returncode == 2
    assert (code["severity"], code["rank"]) == ("error", 1)
    assert f"{tmp_path}/hvd_gan has another models/losses.py" in code["detail"]


@pytest.mark.slow
def test_a_rank_that_cannot_start_says_why_itself(tmp_path):
    shims = broken_horovod(tmp_path / "shims")
    done = on_two_paths(str(ROOT), f"{shims}:{ROOT}")
    assert done.returncode == 2
    [line] = [
        line for line in done.stderr.splitlines() if line.startswith("doctor: rank 1 on host")
    ]
    assert "horovod: its extension is missing" in line and f"take {shims} off PYTHONPATH" in line
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_rank_that_dies_while_the_ranks_start_is_named(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(DYING)
    done = on_two_paths(str(ROOT), f"{tmp_path}:{ROOT}")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("doctor: rank 1 on host")]
    assert len(lines) == 1 and "starting the ranks crashed: SIGKILL" in lines[0], done.stderr


# Kills the process that joins the others, when it imports what starts them.
DYING = """
import os, signal, sys

class Killer:
    def find_spec(self, name, path=None, target=None):
        if name == "hvd_gan.cluster.world" and "hvd_gan.checks.ranks" in sys.modules:
            os.kill(os.getpid(), signal.SIGKILL)

sys.meta_path.insert(0, Killer())
"""
