"""The roll: what rank 0 knows of every rank, and which of them is to blame for a standstill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Beats come every second; a rank that has missed so many is silent.
BEAT_SECONDS = 1.0
SILENT_AFTER = 10.0


@dataclass
class Entry:
    """One rank: when it was last heard, when it last got on, and what it says that it does."""

    host: str
    heard: float
    got_on: float
    beats: int = -1
    at: str = "the start"
    doing: str = ""

    def hear(self, now: float, beats: int, at: str, doing: str) -> None:
        """Takes down one beat."""
        if beats != self.beats:
            self.got_on = now
        self.heard, self.beats, self.at, self.doing = now, beats, at, doing


@dataclass(frozen=True)
class Roll:
    """All ranks, in their order. Times are seconds of one monotonic clock."""

    entries: Sequence[Entry]
    stall_timeout: float

    def name(self, rank: int) -> str:
        """A rank as people are told of it."""
        return f"rank {rank} of {len(self.entries)} on host {self.entries[rank].host}"

    def standstill(self, now: float) -> str | None:
        """What to say if nobody has got on for too long, else None.

        Ranks go in step, so one that is stuck holds up all of them. To blame is whoever is silent,
        else whoever is in a function of Python while the others wait.
        """
        if now - max(entry.got_on for entry in self.entries) < self.stall_timeout:
            return None
        since = f"no rank has got on for {self.stall_timeout:g} s"
        silent = [
            rank
            for rank, entry in enumerate(self.entries)
            # One that never reached rank 0 has not fallen silent.
            if entry.beats >= 0 and now - entry.heard > SILENT_AFTER
        ]
        if silent:
            return (
                f"{self.name(silent[0])} is silent, {since}: it was stopped, or its host is "
                f"overloaded{_others(silent)}"
            )
        busy = [rank for rank, entry in enumerate(self.entries) if entry.doing]
        cure = "; if it only needs longer, raise --stall-timeout"
        if busy:
            entry = self.entries[busy[0]]
            return (
                f"{self.name(busy[0])} is stuck at {entry.at}, in {entry.doing}: "
                f"{since}{_others(busy)}{cure}"
            )
        behind = min(range(len(self.entries)), key=lambda rank: self.entries[rank].beats)
        return (
            f"all ranks wait at {self.entries[behind].at}, and {since}; log/rank-N.txt has every "
            f"rank's stack{cure}"
        )


def _others(ranks: Sequence[int]) -> str:
    """The other culprits, if there are any."""
    if len(ranks) < 2:
        return ""
    listed = ", ".join(str(rank) for rank in ranks[1:5])
    return f" (rank{'s' if len(ranks) > 2 else ''} {listed}{' ...' if len(ranks) > 5 else ''} too)"
