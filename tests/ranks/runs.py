"""Reads what a run left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import psutil

from hvd_gan.engine.checkpoint_files import checkpoints_in
from hvd_gan.engine.checkpoints import read_values


def values(run: Path, step: int | None = None) -> dict[str, np.ndarray]:
    """The variables of a run's newest checkpoint, or of that of a step."""
    saved = checkpoints_in(run / "checkpoints")
    chosen = saved[-1] if step is None else run / "checkpoints" / f"step-{step:08d}"
    return read_values(chosen)


def weights(run: Path) -> dict[str, np.ndarray]:
    """The networks' own variables, without slots: a slot's last part names its stage."""
    return {
        name: value
        for name, value in values(run).items()
        if name.startswith(("generator/", "discriminator/"))
        and not {"completion", "joint", "discriminator"} & set(name.split("/")[-1].split("_"))
    }


def metrics(run: Path) -> list[dict]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_close(one: dict, other: dict, tolerance: float = 2e-5) -> None:
    """All arrays of the same names are equal to within a tolerance."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=tolerance, err_msg=name)


def largest_difference(one: dict, other: dict) -> float:
    """The largest difference between arrays of the same names."""
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


def unused_segments() -> set[str]:
    """Open MPI's shared memory on this machine that no living process has before it."""
    used = set()
    for pid in psutil.pids():
        try:
            used |= set(Path(f"/proc/{pid}/maps").read_text().split())
        except OSError:
            continue
    segments = {str(path) for path in Path("/dev/shm").glob("sm_segment.*")} - used
    # Open MPI leaves those of processes that it runs alone: job 0 of its family.
    return {segment for segment in segments if not segment.split(".")[-2].endswith("0000")}
