"""Which errors of reading may pass, and waiting for that.

A skipped image changes which image stands at its position, and so the bits of the weights. A
network file system that is away for a moment is no reason for that.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

# Longer than most short troubles, shorter than any watch over ranks that are stuck.
SECONDS = 10.0
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
# The device or the network, this host's memory and file descriptors: nothing that is wrong with the
# one file. A missing file, a refused permission and a damaged image are not among them.
PASSING = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EAGAIN,
        errno.EBUSY,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EREMOTEIO,
    }
)


def may_pass(error: BaseException | None) -> bool:
    """Whether the same read may succeed later: by the error, or by what it was raised from."""
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in PASSING:
        return True
    return isinstance(error, MemoryError) or may_pass(error.__cause__)


def patiently(action: Callable[[], Result], seconds: float | None = None) -> Result:
    """What `action` returns, tried again for `seconds` (default: SECONDS) while its error may pass.

    Waits 0.1 s, then twice as long each time, up to 2 s. No new try begins after `seconds`, so an
    action that itself took longer is not tried again. Raises the last error.
    """
    deadline = time.monotonic() + (SECONDS if seconds is None else seconds)
    wait = FIRST_WAIT
    while True:
        try:
            return action()
        except Exception as error:
            if not may_pass(error) or time.monotonic() + wait > deadline:
                raise
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
