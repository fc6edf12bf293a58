"""A probe: loads what training loads, in its order, and reports after each step."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvd_gan.checks.probe import Report


def main(report: Report, argument: Any) -> int:
    """Reports {step: facts} or {step: {"error": ...}} for each step. Always 0."""
    for step, load in STEPS.items():
        report(phase=step)
        try:
            facts = load()
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


def load_mpi4py() -> dict[str, Any]:
    """Imports mpi4py without starting MPI."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return {
        "version": mpi4py.__version__,
        "library": MPI.Get_library_version().strip("\0\n "),
        "libraries": mpi_libraries(),
    }


def _numpy() -> dict[str, Any]:
    import numpy as np

    return {"version": np.__version__, "sum": float(np.ones(3).sum())}


def _tensorflow() -> dict[str, Any]:
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session, tf.device("CPU:0"):
        session.run(tf.constant(1.0) + 1.0)
    return {
        "version": tf.__version__,
        "cuda": tf.test.is_built_with_cuda() and tf.sysconfig.get_build_info()["cuda_version"],
        "gpus": [device.name for device in tf.config.list_physical_devices("GPU")],
    }


def _horovod() -> dict[str, Any]:
    import horovod
    import horovod.tensorflow as hvd

    return {
        "version": horovod.__version__,
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "nccl": bool(hvd.nccl_built()),
        "libraries": mpi_libraries(),
    }


def _package() -> dict[str, Any]:
    importlib.import_module("hvd_gan.training")
    return {}


def _first_cause(error: BaseException) -> BaseException:
    """The error that the others were raised over: the loader's own words."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "numpy": _numpy,
    "tensorflow": _tensorflow,
    "horovod": _horovod,
    "mpi4py": load_mpi4py,
    "package": _package,
}
