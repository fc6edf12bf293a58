"""Sees what becomes of a launcher's ranks on this host, for as long as they cannot say it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from hvd_gan.cluster.launcher import RANK_VARIABLES

# A start that takes longer has its own watch; so has a job whose rank 0 is on another host.
WATCHED_SECONDS = 600.0
KILLED = 128


class Witness:
    """Which of a launcher's ranks on this host was the first to be gone, while all start."""

    def __init__(self, launcher: int) -> None:
        self._launcher = launcher
        self._alive: dict[int, str] = {}
        self._first_gone: str | None = None
        self._started = self._last_seen = time.monotonic()

    def look(self) -> float:
        """To be called every moment. For how long all ranks that there were have been gone."""
        now = time.monotonic()
        if now - self._started > WATCHED_SECONDS:
            return 0.0
        ranks = ranks_of(self._launcher)
        for pid, rank in self._alive.items():
            if pid not in ranks and self._first_gone is None:
                self._first_gone = rank
        self._alive = ranks
        if ranks or self._first_gone is None:
            self._last_seen = now
        return now - self._last_seen

    def testimony(self, code: int) -> str | None:
        """What to say of a job that has failed, with the launcher's code, before its ranks could.

        A launcher that hands on a rank's code tells by it that a signal has ended that rank;
        horovodrun only makes 1 of it.
        """
        # The launcher may have ended before the next look.
        only = next(iter(self._alive.values())) if len(self._alive) == 1 else None
        first_gone = self._first_gone or only
        if first_gone is None or not code:
            return None
        who = f"rank {first_gone} on host {socket.gethostname()}"
        if code > KILLED:
            return (
                f"{who} died before the ranks had met: it was killed, ran out of memory or crashed"
            )
        return f"{who} was the first to end, before the ranks had met; the reason stands above"


def descendants(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def ranks_of(launcher: int) -> dict[int, str]:
    """The ranks below a launcher on this host, as their process ids and numbers."""
    found: dict[int, str] = {}
    for process, number in _numbered(launcher):
        # What a rank starts inherits its number.
        with contextlib.suppress(psutil.Error):
            if process.ppid() not in found:
                found[process.pid] = number
    return found


def listeners(launcher: int, number: signal.Signals) -> list[int]:
    """The process ids of ranks below a launcher that have a handler for a signal, rather than being
    ended by it; also of those that a wrapper has started.
    """
    return [process.pid for process, _ in _numbered(launcher) if catches(process.pid, number)]


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def _numbered(launcher: int) -> Iterator[tuple[psutil.Process, str]]:
    """All below a launcher that have a rank's number in their environment."""
    # A batch script is told a number too, and hands it on to the launcher.
    variables = [name for name in RANK_VARIABLES if name not in os.environ]
    for process in descendants(launcher):
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        numbers = [environment[name] for name in variables if name in environment]
        if numbers:
            yield process, numbers[0]
