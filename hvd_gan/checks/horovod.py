"""Horovod: is its extension there, was it built for this TensorFlow, does it load, with what?"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hvd_gan.checks.findings import Finding, error, note, ok, warning
from hvd_gan.checks.probe import Outcome
from hvd_gan.checks.repair import origin, rebuild, repair
from hvd_gan.checks.symbols import missing_library, missing_symbol, readable, whose

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


def folder() -> Path | None:
    """Where Horovod lies, found without importing it; None if it is not installed."""
    file = origin("horovod")
    return file.parent if file else None


def extension(where: Path) -> Path:
    """The library that TensorFlow loads."""
    return where / "tensorflow" / f"mpi_lib{SUFFIX}"


def built_for(where: Path) -> str:
    """The TensorFlow that Horovod was built for, as its build noted; empty if it did not."""
    try:
        return str(json.loads((where / "metadata.json").read_text())["tensorflow"])
    except (OSError, ValueError, KeyError):
        return ""


def check_horovod(outcome: Outcome) -> Iterator[Finding]:
    """Findings from Horovod's files and from the attempt to load it."""
    where, steps = folder(), outcome.results
    if where is None:
        yield error("horovod", "not installed for this Python", repair())
        return
    if not extension(where).is_file():
        yield error("horovod", _missing_extension(where), repair("horovod"))
        return
    tensorflow, made = steps.get("tensorflow", {}).get("version"), built_for(where)
    facts = steps.get("horovod")
    other = tensorflow is not None and made not in ("", tensorflow)
    if other:
        detail = f"built for TensorFlow {made}, and {tensorflow} is installed"
        if facts and "error" not in facts:
            yield warning("horovod", f"{detail}; it loads, and may fail later", repair("horovod"))
        else:
            yield error("horovod", detail + _reason(facts), repair("horovod"))
            return
    if tensorflow is None:
        # Its extension needs TensorFlow's libraries; TensorFlow's own finding says what is wrong.
        yield note("horovod", "not tried, as TensorFlow does not load", "mend TensorFlow first")
    elif facts is None and outcome.phase == "horovod":
        yield error("horovod", f"loading it {outcome.how}", repair("horovod"))
    elif facts is None:
        yield note("horovod", f"not tried, as loading ended at {outcome.phase}", "mend that first")
    elif "error" in facts:
        yield _load_error(facts)
    else:
        yield from _built_with(facts, bool(steps["tensorflow"]["gpus"]), other)


def _missing_extension(where: Path) -> str:
    others = [path.name for path in sorted(where.glob("tensorflow/mpi_lib*.so"))]
    if others:
        return f"built for another Python: it has {others[0]}, this Python wants mpi_lib{SUFFIX}"
    return f"its extension is missing: {extension(where)}"


def _reason(facts: Mapping[str, Any] | None) -> str:
    cause = facts.get("cause", "") if facts else ""
    if symbol := missing_symbol(cause):
        return f"; its {readable(symbol)} is {whose(symbol)}"
    library = missing_library(cause)
    return f"; its library {library} is not found either" if library else ""


def _load_error(facts: Mapping[str, Any]) -> Finding:
    message = f"{facts['cause']} {facts['error']}"
    if symbol := missing_symbol(message):
        detail = f"undefined symbol {readable(symbol)}: it is {whose(symbol)}"
        return error("horovod", detail, rebuild())
    if library := missing_library(message):
        cure = repair("horovod")
        if "mpi" in library:
            cure = (
                "load the MPI that it was built with (module load ...), or build anew: "
                + repair("horovod")
            )
        return error("horovod", f"its library {library} is not found", cure)
    if wanted := re.search(r"version `(GLIBC\w*_[\d.]+)' not found", message):
        detail = f"built on another machine: it wants {wanted[1]}"
        return error("horovod", detail, rebuild())
    return error("horovod", facts["error"], repair(facts["module"] or "horovod"))


def _built_with(facts: Mapping[str, Any], gpus: bool, other: bool) -> Iterator[Finding]:
    names = {"mpi": "MPI", "gloo": "Gloo", "nccl": "NCCL"}
    has = ", ".join(title for name, title in names.items() if facts[name])
    what = f"{facts['version']}, with {has or 'neither MPI nor Gloo'}"
    if not (facts["mpi"] or facts["gloo"]):
        yield error("horovod", what, repair("horovod"))
    elif gpus and not facts["nccl"]:
        cure = "GPU=1 ./install.sh builds it with NCCL"
        yield warning("horovod", f"{what}: gradients take the way through host memory", cure)
    elif not facts["mpi"]:
        yield note("horovod", f"{what} only: mpirun and srun cannot start it", "horovodrun --gloo")
    elif not other:
        yield ok("horovod", what)
