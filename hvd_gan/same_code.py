"""Whether all ranks run the same code: hosts with environments of their own may not."""

from __future__ import annotations

import platform

import horovod
import keras
import numpy as np
import tensorflow as tf

from hvd_gan import __version__
from hvd_gan.checks.survey import package_files
from hvd_gan.cluster.world import AgreedError, World


def check_same_code(world: World) -> None:
    """Raises AgreedError, on all ranks, that names a rank with other versions than rank 0's, or
    with another file of this package: versions do not change with every edit.

    A collective: every rank calls it.
    """
    first, *others = world.gather(_code())
    for rank, theirs in enumerate(others, 1):
        for name in [*first, *sorted(theirs.keys() - first.keys())]:
            found, expected = (code.get(name, "missing") for code in (theirs, first))
            if found != expected:
                raise AgreedError(
                    f"rank {rank} on host {world.members[rank]} has {name} {found}, and "
                    f"rank 0 on host {world.members[0]} has {expected}: install the same on all "
                    "hosts, or put the environment on a file system that they share"
                )


def _code() -> dict[str, str]:
    modules = {"TensorFlow": tf, "Horovod": horovod, "NumPy": np, "Keras": keras}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {
        "Python": platform.python_version(),
        "hvd_gan": __version__,
        **versions,
        **{f"hvd_gan/{name}": digest for name, digest in package_files("hvd_gan")["files"].items()},
    }
