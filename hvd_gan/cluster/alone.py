"""A rank's watch over itself, for when no hub watches it: before there is one, after it, and in an
elastic job, which has none.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from hvd_gan.cluster.activity import doing
from hvd_gan.cluster.exit_codes import EXIT_FAILED
from hvd_gan.cluster.launcher import leave_exit_code, stated_rank
from hvd_gan.cluster.lifeline import Lifeline
from hvd_gan.cluster.roll import BEAT_SECONDS
from hvd_gan.cluster.voice import say, say_last

CURE = "if it only needs longer, raise --stall-timeout"
# When ranks wait for one that does not come, that one is to speak first; in an elastic job it is
# to end, and to be done without.
WAITING_SECONDS = 3.0
LOST_SECONDS = 15.0


def end_later(seconds: float, finding: str, last: bool = True) -> threading.Timer:
    """Ends this process, non-zero, if it has not got on by then; `finding` says what it has not.

    last: whether the job ends with it; in an elastic one others may go on.
    """

    def end() -> None:
        if not doing():
            threading.Event().wait(WAITING_SECONDS)
        (say_last if last else say)(_sentence(f"{finding} in {seconds:g} s"))
        if last:
            leave_exit_code(EXIT_FAILED)
        os._exit(EXIT_FAILED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


@contextlib.contextmanager
def watched(lifeline: Lifeline, stall_timeout: float) -> Iterator[None]:
    """Ends this process, non-zero, when it has not got on for `stall_timeout` seconds.

    For an elastic job; in others the hub judges, which knows of all ranks. A rank that is stuck
    goes first, and the others on without it. Where that does not help, as after a rank that was
    stopped, the others follow: the job ends, and does not hang.
    """
    left = threading.Event()

    def watch() -> None:
        beats, since = lifeline.beats, time.monotonic()
        while not left.wait(BEAT_SECONDS):
            if lifeline.beats != beats:
                beats, since = lifeline.beats, time.monotonic()
            patience = stall_timeout if doing() else stall_timeout + LOST_SECONDS
            if time.monotonic() - since > patience:
                # Not the last word: the job may go on.
                say(_sentence(f"has not got on for {stall_timeout:g} s"))
                os._exit(EXIT_FAILED)

    threading.Thread(target=watch, name="lifeline watch", daemon=True).start()
    try:
        yield
    finally:
        left.set()


def who() -> str:
    """This rank, where Horovod has not told yet."""
    rank = stated_rank()
    host = os.uname().nodename
    return f"a rank on host {host}" if rank is None else f"rank {rank} on host {host}"


def _sentence(finding: str) -> str:
    where = doing()
    where = f"is in {where}" if where else "waits for the other ranks"
    return f"{who()} {finding}: it {where}; {CURE}"
