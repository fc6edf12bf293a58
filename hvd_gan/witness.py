"""Sees what becomes of a launcher's ranks on this host, for as long as they cannot say it."""

from __future__ import annotations

import socket
import time

import psutil

from hvd_gan.cluster.launcher import RANK_VARIABLES


class Witness:
    """Which of a launcher's ranks on this host was the first to be gone."""

    def __init__(self, launcher: int) -> None:
        self._launcher = launcher
        self._alive: dict[int, str] = {}
        self._first_gone: str | None = None
        self._last_seen = time.monotonic()

    def look(self) -> None:
        """To be called every moment while the ranks start."""
        ranks = ranks_of(self._launcher)
        for pid, rank in self._alive.items():
            if pid not in ranks and self._first_gone is None:
                self._first_gone = rank
        self._alive = ranks
        if ranks or self._first_gone is None:
            self._last_seen = time.monotonic()

    def seconds_alone(self) -> float:
        """For how long all ranks that there were have been gone; 0 if there are some."""
        return time.monotonic() - self._last_seen

    def testimony(self) -> str | None:
        """What to say of a job that has failed before its ranks could."""
        if self._first_gone is None:
            return None
        return (
            f"rank {self._first_gone} on host {socket.gethostname()} died before the ranks had "
            "met: it was killed, ran out of memory or crashed"
        )


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
    for process in descendants(launcher):
        try:
            environment = process.environ()
            numbers = [environment[name] for name in RANK_VARIABLES if name in environment]
            # What a rank starts inherits its number.
            if numbers and process.ppid() not in found:
                found[process.pid] = numbers[0]
        except psutil.Error:
            continue
    return found
