"""Which device a rank computes on, and with how many threads."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Device:
    """`gpu` is the index among the visible GPUs, None on a CPU; `threads` are for compute."""

    gpu: int | None
    threads: int

    def __str__(self) -> str:
        if self.gpu is not None:
            return f"GPU {self.gpu}"
        return f"CPU, {self.threads} thread" + ("s" if self.threads > 1 else "")


def usable_cores() -> frozenset[int]:
    """The cores that this process may run on."""
    return frozenset(os.sched_getaffinity(0))


def quota(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The CPU time that a container may use, in cores; infinity where there is no limit."""
    first = cgroup / "cpu"
    try:
        if first.is_dir():
            # Version 1 of Linux's control groups.
            files = (first / "cpu.cfs_quota_us", first / "cpu.cfs_period_us")
            limit, period = (path.read_text().strip() for path in files)
        else:
            limit, period = (cgroup / "cpu.max").read_text().split()
        return math.inf if limit in ("max", "-1") else int(limit) / int(period)
    except (OSError, ValueError):
        return math.inf


def share_of_cores(own: Iterable[int], all_on_host: Sequence[Iterable[int]], limit: float) -> int:
    """How many threads a rank may use, at least 1.

    `all_on_host` are the usable cores of every rank on this host, `own` among them. A core that
    several ranks may use counts for its part, so ranks that the launcher bound to cores of their
    own keep them whole. `limit` is the container's quota, shared by the ranks on the host.
    """
    users: dict[int, int] = {}
    for cores in all_on_host:
        for core in cores:
            users[core] = users.get(core, 0) + 1
    share = sum(1 / users[core] for core in own)
    # 1e-9: a sum of thirds is a little below the whole.
    return max(1, math.floor(min(share, limit / len(all_on_host)) + 1e-9))
