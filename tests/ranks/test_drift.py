"""Ranks that are no longer the same are found, in whatever variable and by whatever bit."""

from __future__ import annotations

import json
import socket

import pytest

from tests.launch import TINY, launch, slow
from tests.ranks.programs.drifting import TYPES
from tests.ranks.runs import values

pytestmark = pytest.mark.ranks
HOST = socket.gethostname()


@pytest.mark.parametrize(("launcher", "ranks"), [("mpirun", 2), ("gloo", 2), slow("mpirun", 3)])
def test_one_bit_of_any_variable_stops_all_ranks_by_its_name(launcher, ranks):
    done = launch(launcher, ranks, "-m", "tests.ranks.programs.drifting")
    assert done.code == 0, done.output
    lines = [line.split("CASE ")[1] for line in done.output.splitlines() if "CASE " in line]
    cases = [json.loads(line) for line in lines]
    nudged = {name for name, change, _ in cases if change == "nudged"}
    assert nudged == {*(dtype.name for dtype in TYPES), "reference", "scalar", "convolution"}
    assert {name for name, change, _ in cases if change == "swapped"} == nudged - {"scalar"}
    who = (
        f"rank 0 (host {HOST}) as on rank 1 (host {HOST})"
        if ranks == 2
        else f"rank 2 (host {HOST}) as on the 2 other ranks"
    )
    for name, _, heard in cases:
        assert len(set(heard)) == 1
        assert heard[0].startswith(f"drift: after step 7 {name} is not the same on {who}")


def test_a_run_stops_before_it_saves_what_has_drifted(tmp_path):
    arguments = ("--run", str(tmp_path / "run"), *TINY, "checkpoints.every=2")
    done = launch("mpirun", 2, "-m", "tests.ranks.programs.nudged", *arguments)
    assert done.code == 2
    assert "drift: after step 4 generator/bias" in done.last_line, done.output
    assert "not the same on rank 0" in done.last_line
    assert int(values(tmp_path / "run")["hvd_gan/steps"]) == 2


def test_it_can_be_switched_off(tmp_path):
    arguments = ("--run", str(tmp_path / "run"), *TINY, "numerics.drift_every=0")
    done = launch("mpirun", 2, "-m", "tests.ranks.programs.nudged", *arguments)
    assert done.code == 0, done.output
