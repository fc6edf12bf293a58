"""Whether all ranks run the same code: hosts with environments of their own may not."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import horovod
import keras
import numpy as np
import tensorflow as tf

from hvd_gan import __version__
from hvd_gan.cluster.world import AgreedError, World


def check_same_code(world: World) -> None:
    """Raises AgreedError, on all ranks, that names a rank with other versions than rank 0's.

    A collective: every rank calls it.
    """
    first, *others = world.gather(_versions())
    for rank, theirs in enumerate(others, 1):
        for name, expected in first.items():
            if theirs.get(name) != expected:
                raise AgreedError(
                    f"rank {rank} on host {world.members[rank]} has {name} {theirs.get(name)}, and "
                    f"rank 0 on host {world.members[0]} has {expected}: install the same on all "
                    "hosts, or put the environment on a file system that they share"
                )


def _versions() -> dict[str, str]:
    modules = {"TensorFlow": tf, "Horovod": horovod, "NumPy": np, "Keras": keras}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {
        "Python": platform.python_version(),
        "hvd_gan": __version__,
        **versions,
        "code of hvd_gan": _digest(Path(__file__).parent),
    }


def _digest(folder: Path) -> str:
    """Of all code and presets in a folder: versions do not change with every edit."""
    whole = hashlib.sha256()
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.yaml")]):
        whole.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()[:12]
