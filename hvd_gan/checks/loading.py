"""A probe: loads what training loads, in its order, and reports after each step."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvd_gan.checks.probe import Report


def main(report: Report, argument: Any) -> int:
    """Reports {step: facts} or {step: {"error": ...}} for each step. Always 0.

    `argument` is this process's local rank.
    """
    for step, load in STEPS.items():
        report(phase=step)
        try:
            facts = load(argument)
        # Whatever an import raises, SystemExit too, is what we are here to see.
        except BaseException as error:
            first = _first_cause(error)
            facts = {
                "error": _told(error) if first is error else f"{_told(error)} ({_told(first)})",
                "cause": str(first),
                "module": getattr(first, "name", None) or "",
            }
        report(**{step: facts})
    return 0


def mpi_libraries() -> list[str]:
    """The MPI libraries that this process has loaded."""
    maps = Path("/proc/self/maps").read_text()
    return sorted(set(re.findall(r"/\S*/libmpi(?:ch)?\.so\S*", maps)))


def load_mpi4py(_: int = 0) -> dict[str, Any]:
    """Imports mpi4py without starting MPI."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return {
        "version": mpi4py.__version__,
        "library": MPI.Get_library_version().strip("\0\n "),
        "libraries": mpi_libraries(),
    }


def _numpy(_: int) -> dict[str, Any]:
    import numpy as np

    return {"version": np.__version__, "sum": float(np.ones(3).sum())}


def _tensorflow(_: int) -> dict[str, Any]:
    import tensorflow as tf

    # Without GPUs: a session takes the memory of all that it may see.
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        session.run(tf.constant(1.0) + 1.0)
    return {
        "version": tf.__version__,
        "cuda": tf.test.is_built_with_cuda() and tf.sysconfig.get_build_info()["cuda_version"],
        "gpus": [device.name for device in tf.config.list_physical_devices("GPU")],
    }


def _gpu(local_rank: int) -> dict[str, Any]:
    """Computes on the GPU that this rank will have, with as little of its memory as may be."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        config = tf.compat.v1.ConfigProto()
        config.gpu_options.allow_growth = True
        config.gpu_options.visible_device_list = str(local_rank % len(gpus))
        with tf.Graph().as_default(), tf.device("GPU:0"):
            one = tf.ones([8, 8])
            with tf.compat.v1.Session(config=config) as session:
                session.run(tf.matmul(one, one))
    return {}


def _horovod(_: int) -> dict[str, Any]:
    import horovod
    import horovod.tensorflow as hvd

    return {
        "version": horovod.__version__,
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "nccl": bool(hvd.nccl_built()),
        "libraries": mpi_libraries(),
    }


def _package(_: int) -> dict[str, Any]:
    importlib.import_module("hvd_gan.training")
    return {}


def _first_cause(error: BaseException) -> BaseException:
    """The error that the others were raised over: the loader's own words."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


STEPS: dict[str, Callable[[int], dict[str, Any]]] = {
    "numpy": _numpy,
    "tensorflow": _tensorflow,
    "gpu": _gpu,
    "horovod": _horovod,
    "mpi4py": load_mpi4py,
    "package": _package,
}
