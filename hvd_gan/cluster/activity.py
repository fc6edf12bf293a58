"""What this rank is doing: how far it has got, and in which function it is."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

# A main thread inside one of these waits: for TensorFlow or for other ranks.
WAITING = (
    os.path.join("tensorflow", "python", "client", "session.py"),
    os.path.join("hvd_gan", "cluster", "carrier.py"),
    os.path.join("horovod", "common", "basics.py"),
)
# The functions through which other threads come to work: TensorFlow's own threads to Python
# functions of the graph, such as those that read images, and the workers of a pool.
WORKERS = (
    (os.path.join("tensorflow", "python", "ops", "script_ops.py"), "FuncRegistry.__call__"),
    (os.path.join("concurrent", "futures", "thread.py"), "_WorkItem.run"),
)

# Threads that watch, and are no part of what goes wrong.
OWN = ("hub", "lifeline", "signals", "asyncio")


class Activity:
    """A count that rises whenever this rank has got on, and the place where it is."""

    def __init__(self) -> None:
        self.beats = 0
        self.at = "the start"

    def beat(self, at: str | None = None) -> None:
        """Says that this rank has got on, and, with `at`, where it is now."""
        self.beats += 1
        if at is not None:
            self.at = at


def doing() -> str:
    """The Python function that this rank is in, outside of waiting; empty if it only waits.

    What another thread works at comes before the main thread, which may wait for it.
    """
    main = threading.main_thread().ident
    found = ""
    for thread, frame in sys._current_frames().items():
        codes = [each.f_code for each in _outwards(frame)]
        if any(
            code.co_filename.endswith(file) and code.co_qualname == name
            for code in codes
            for file, name in WORKERS
        ):
            return _describe(frame)
        if thread == main and not any(code.co_filename.endswith(WAITING) for code in codes):
            found = _describe(frame)
    return found


def stacks() -> str:
    """The main thread's stack, then those of the others but our own, each with its newest call
    last.
    """
    frames = sys._current_frames()
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith(OWN)]
    threads.sort(key=lambda thread: thread is not threading.main_thread())
    return "".join(
        f"Thread {thread.name}:\n" + "".join(traceback.format_stack(frames[thread.ident]))
        for thread in threads
        if thread.ident in frames
    )


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _describe(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
