"""A probe: which MPI mpi4py finds by itself, without Horovod's loaded before."""

from __future__ import annotations

from typing import Any

from hvd_gan.checks.loading import load_mpi4py
from hvd_gan.checks.probe import Report


def main(report: Report, argument: Any) -> int:
    """Reports mpi4py's facts, or its error."""
    report(phase="mpi4py")
    try:
        report(alone=load_mpi4py())
    except Exception as error:
        report(alone={"error": f"{type(error).__name__}: {error}"})
    return 0
