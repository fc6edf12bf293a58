"""Runs what may crash or hang in a process of its own, and hears what it reports on the way.

A probe is a module of this package with `main(report)`; it calls `report(phase=...)` before each
step and `report(...)` with what it found. A process that dies or falls silent is known by its last
phase.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The child searches modules where this process does, however that was started.
BOOT = """
import importlib, json, sys
where, path, module, argument = sys.argv[1:]
sys.path[:] = json.loads(path)
with open(where, "a", buffering=1) as file:
    def report(**values):
        file.write(json.dumps(values) + "\\n")
    sys.exit(importlib.import_module(module).main(report, json.loads(argument)))
"""
POLL_SECONDS = 0.05

Report = Callable[..., None]


@dataclass(frozen=True)
class Outcome:
    """How a probe ended. `code` is None if it fell silent and was ended, negative for a signal."""

    code: int | None
    reports: tuple[dict[str, Any], ...]
    stderr: str
    silence: float
    interrupted: bool = False

    @property
    def phase(self) -> str:
        """What it was last about to do."""
        phases = [report["phase"] for report in self.reports if "phase" in report]
        return phases[-1] if phases else "starting Python"

    @property
    def results(self) -> dict[str, Any]:
        """All that it reported, but for the phases; later reports win."""
        return {key: value for report in self.reports for key, value in report.items()}

    @property
    def how(self) -> str:
        """How it ended, for people."""
        if self.interrupted:
            return "was ended by the launcher"
        if self.code is None:
            return f"hung: nothing for {self.silence:g} s"
        if self.code < 0:
            return f"crashed: {signal.Signals(-self.code).name}"
        return f"ended with code {self.code}: {last_line(self.stderr) or 'no message'}"


def last_line(text: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def probe(
    module: str,
    argument: Any = None,
    silence: float = 120,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs a module's `main(report, argument)`; ends it if it reports nothing for `silence` s."""
    with tempfile.TemporaryDirectory() as folder:
        reports, errors = Path(folder, "reports"), Path(folder, "stderr")
        reports.touch()
        words = (str(reports), json.dumps(sys.path), module, json.dumps(argument))
        with errors.open("wb") as stderr:
            # Files, not pipes: whoever holds a pipe's other end could keep us waiting.
            child = subprocess.Popen(
                [sys.executable, "-c", BOOT, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
            )
            code, interrupted = _wait(child, reports, silence)
        said = [json.loads(line) for line in reports.read_text().splitlines()]
        return Outcome(code, tuple(said), errors.read_text(errors="replace"), silence, interrupted)


def _wait(child: subprocess.Popen, reports: Path, silence: float) -> tuple[int | None, bool]:
    """The exit code (None after too long a silence), and whether SIGTERM came meanwhile."""
    interrupted = False

    def note_it(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    # The launcher ends all ranks when one has failed: what was found by then is still to be told.
    previous = signal.signal(signal.SIGTERM, note_it)
    try:
        heard, size = time.monotonic(), 0
        while child.poll() is None:
            if reports.stat().st_size != size:
                heard, size = time.monotonic(), reports.stat().st_size
            if interrupted or time.monotonic() - heard > silence:
                child.kill()
                child.wait()
                return None, interrupted
            time.sleep(POLL_SECONDS)
        return child.returncode, interrupted
    finally:
        signal.signal(signal.SIGTERM, previous)


def output_of(command: Sequence[str], timeout: float = 20) -> tuple[int | None, str]:
    """A program's exit code and its two streams; None if it cannot be run or does not end."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return None, str(problem)
    return done.returncode, done.stdout.decode(errors="replace")
