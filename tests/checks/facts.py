"""A machine on which all is well, for tests that change one thing."""

from __future__ import annotations

import time

GIB = 2**30
ETH0 = {"name": "eth0", "address": "10.0.0.1", "prefix": 24, "up": True, "speed": 10_000}

HEALTHY = {
    "host": "a",
    "cwd": "/work",
    "python": "3.11.7",
    "executable": "/venv/bin/python",
    "versions": {"tensorflow-cpu": "2.21.0", "horovod": "0.28.1"},
    "package": {"folder": "/srv/hvd_gan", "files": {"train.py": "1", "cli.py": "2"}},
    "cpus": list(range(8)),
    "cores": 8,
    "all_cores": 8,
    "quota": -1,
    "load": 0.1,
    "memory": {"total": 64 * GIB, "free": 60 * GIB},
    "shm": {"path": "/dev/shm", "size": 32 * GIB, "free": 32 * GIB},
    "tmp": {"path": "/tmp", "size": 100 * GIB, "free": 90 * GIB},
    "open_files": (4096, 65536),
    "locked_memory": -1,
    "infiniband": [],
    "nics": [ETH0],
    "default_nic": "eth0",
    "chosen_nic": None,
    "own_address": "10.0.0.1",
    "gpus": {"names": [], "problem": "", "devices": []},
    "cuda_visible": None,
    "time": time.time(),
}


def facts(**changes) -> dict:
    return {**HEALTHY, **changes}


def nic(name: str, address: str | None = "10.0.0.1", prefix: int = 24, **changes) -> dict:
    return {**ETH0, "name": name, "address": address, "prefix": prefix, **changes}
