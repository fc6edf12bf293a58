"""Runs what may crash or hang in a process of its own, and hears what it reports on the way.

A probe is a module of this package with `main(report, argument)`; it calls `report(phase=...)`
before each step and `report(...)` with what it found, and goes on when that was heard. A process
that dies or falls silent is known by its last phase. `report(patience=...)` says how many seconds
the next step may take, where that is more than usual.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

# The child searches modules where this process does, however that was started.
BOOT = """
import importlib, json, sys
where, path, module, argument = sys.argv[1:]
sys.path[:] = json.loads(path)
with open(int(where), "w", buffering=1) as file:
    def report(**values):
        file.write(json.dumps(values) + "\\n")
        sys.stdin.readline()
    sys.exit(importlib.import_module(module).main(report, json.loads(argument)))
"""
POLL_SECONDS = 0.05

Report = Callable[..., None]
Hear = Callable[[dict[str, Any]], None]


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
    silence: float = 300,
    hear: Hear = lambda values: None,
) -> Outcome:
    """Runs a module's `main(report, argument)`; ends it if it reports nothing for `silence` s.

    `hear` gets each report as it comes.
    """
    # In memory, as there may be no folder for temporary files; not pipes, as whoever held one's
    # other end could keep us waiting.
    with _memory("reports") as reports, _memory("stderr") as errors:
        where = str(reports.fileno())
        words = (where, json.dumps(sys.path), module, json.dumps(argument))
        child = subprocess.Popen(
            [sys.executable, "-c", BOOT, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(reports.fileno(),),
        )
        # Opened anew: the child writes at the position of the other.
        with child, open(f"/proc/self/fd/{where}") as lines:
            return _attend(child, lines, errors, silence, hear)


def _memory(name: str) -> IO[str]:
    return os.fdopen(os.memfd_create(name), "w+", errors="replace")


def _attend(
    child: subprocess.Popen, lines: IO[str], errors: IO[str], silence: float, hear: Hear
) -> Outcome:
    """Listens until the child ends, is too long silent, or SIGTERM comes to this process."""
    interrupted, patience, heard = False, silence, time.monotonic()
    said: list[dict[str, Any]] = []
    line = ""

    def outcome(code: int | None) -> Outcome:
        errors.seek(0)
        return Outcome(code, tuple(said), errors.read(), patience, interrupted)

    def note_it(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    # The launcher ends all ranks when one has failed: what was found by then is still to be told.
    previous = signal.signal(signal.SIGTERM, note_it)
    try:
        while True:
            ended = child.poll() is not None
            # What the child wrote last is there after its end.
            for piece in lines:
                line += piece
                if not line.endswith("\n"):
                    break
                said.append(json.loads(line))
                line = ""
                patience, heard = said[-1].get("patience", silence), time.monotonic()
                hear(said[-1])
                _acknowledge(child)
            if ended:
                return outcome(child.returncode)
            if interrupted or time.monotonic() - heard > patience:
                child.kill()
                return outcome(None)
            time.sleep(POLL_SECONDS)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _acknowledge(child: subprocess.Popen) -> None:
    assert child.stdin
    try:
        child.stdin.write(b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        # It has died, as the next look at it will show.
        pass


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
