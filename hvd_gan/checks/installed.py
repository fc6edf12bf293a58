"""Is what training needs installed, and do the parts fit together?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from hvd_gan.checks.findings import Finding, error, note, ok, warning
from hvd_gan.checks.horovod import check_horovod
from hvd_gan.checks.mpi import check_mpi
from hvd_gan.checks.probe import Outcome, probe
from hvd_gan.checks.repair import made_for, repair

PYTHONS = ((3, 11), (3, 13))
CONSTRAINTS = Path(__file__).parents[2] / "constraints"


def check_installed(launched: bool, local_rank: int = 0) -> tuple[list[Finding], dict[str, Any]]:
    """Findings about what is installed, and what TensorFlow says of itself.

    `launched` says that a launcher has started this process already.
    """
    outcome = probe("hvd_gan.checks.loading", local_rank)
    steps = outcome.results
    findings = [
        _python(),
        *_numpy(outcome),
        *_tensorflow(outcome),
        *check_horovod(outcome),
        *check_mpi(steps, launched),
        *_package(outcome),
        *_as_installed(steps),
        *_as_tested(steps),
    ]
    gpu = steps.get("gpu", {"error": outcome.how if outcome.phase == "gpu" else ""})
    return findings, {**steps.get("tensorflow", {}), "gpu_error": gpu.get("error", "")}


def _python() -> Finding:
    version = sys.version.split()[0]
    low, high = (".".join(map(str, pair)) for pair in PYTHONS)
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        cure = "PYTHON=python3.11 ./install.sh makes an environment with one that fits"
        return error("python", f"{version}; {low} to {high} work", cure)
    return ok("python", f"{version}, {sys.executable}")


def _numpy(outcome: Outcome) -> Iterator[Finding]:
    facts = outcome.results.get("numpy")
    if facts is None:
        yield error("numpy", outcome.how, repair("numpy"))
    elif "error" in facts:
        yield error("numpy", facts["error"], repair("numpy"))
    else:
        yield ok("numpy", facts["version"])


def _tensorflow(outcome: Outcome) -> Iterator[Finding]:
    facts = outcome.results.get("tensorflow")
    if "error" in outcome.results.get("numpy", {}):
        yield note("tensorflow", "does not load without NumPy", "mend NumPy first")
    elif facts is None:
        if outcome.phase == "tensorflow":
            cure = repair("tensorflow")
            if "SIGILL" in outcome.how:
                cure = (
                    "this processor lacks instructions (AVX) that it was built with; take another"
                )
            yield error("tensorflow", outcome.how, cure)
    elif "error" not in facts:
        kind = f"for GPUs with CUDA {facts['cuda']}" if facts["cuda"] else "for CPUs"
        yield ok("tensorflow", f"{facts['version']}, built {kind}")
    elif "No module named 'tensorflow'" in facts["error"]:
        yield error("tensorflow", "not installed for this Python", repair())
    else:
        yield error("tensorflow", facts["error"], repair(facts["module"] or "tensorflow"))


def _package(outcome: Outcome) -> Iterator[Finding]:
    """The package's own import, where nothing before it explains a failure."""
    facts, steps = outcome.results.get("package"), outcome.results
    if any(
        "error" in steps.get(step, {"error": ""}) for step in ("numpy", "tensorflow", "horovod")
    ):
        return
    if facts is None and outcome.phase == "package":
        yield error("hvd_gan", f"importing it {outcome.how}", repair())
    elif facts and "error" in facts:
        yield error("hvd_gan", facts["error"], repair(facts["module"]))
    elif facts is not None:
        yield ok("hvd_gan", str(Path(__file__).parents[1]))


def _as_installed(steps: Mapping[str, Any]) -> Iterator[Finding]:
    """What has changed since install.sh made this environment."""
    tensorflow = steps.get("tensorflow", {}).get("version")
    made = made_for()
    if made is None or tensorflow is None:
        return
    then = (made.python, made.tensorflow)
    now = (sys.version.split()[0], tensorflow)
    changes = [
        f"{name} {version}, was {was}"
        for name, version, was in zip(("Python", "TensorFlow"), now, then, strict=True)
        if version != was
    ]
    if changes:
        detail = f"changed since install.sh: {', '.join(changes)}"
        yield warning("environment", detail, repair())


def _as_tested(steps: Mapping[str, Any]) -> Iterator[Finding]:
    """Packages at other versions than they were tested at, where the list of those is there."""
    tensorflow = steps.get("tensorflow", {}).get("version")
    tested = CONSTRAINTS / f"tf{tensorflow}.txt"
    if tensorflow is None or not CONSTRAINTS.is_dir():
        return
    if not tested.is_file():
        known = ", ".join(
            path.stem.removeprefix("tf") for path in sorted(CONSTRAINTS.glob("tf*.txt"))
        )
        detail = f"not tested with TensorFlow {tensorflow}"
        yield note("packages", detail, f"TF=VERSION ./install.sh takes one of {known}")
        return
    pins = re.findall(r"^([\w.-]+)==(\S+)$", tested.read_text(), re.MULTILINE)
    others = [
        f"{name} {have} ({want})"
        for name, want in pins
        if (have := _version(name)) not in ("", want)
    ]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        detail = f"others than were tested: {', '.join(others[:3])}{more}"
        yield note("packages", detail, f"pip install -c {tested} NAME, if one makes trouble")
    else:
        yield ok("packages", f"at the versions of {tested.name}")


def _version(name: str) -> str:
    """An installed package's version; empty if it is not there, or only in part."""
    try:
        return metadata.version(name) or ""
    except Exception:  # what a half-removed package raises is anyone's guess
        return ""
