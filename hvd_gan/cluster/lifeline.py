"""The lifeline: what ties a rank to the others' fate, beside MPI and Gloo.

A thread tells the hub every second that this rank lives, how far it has got and what it is doing;
another one ends this process when the hub gives its verdict, or when the hub is gone. Both work
while the main thread is stuck.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from hvd_gan.cluster.activity import Activity, doing, stacks
from hvd_gan.cluster.exit_codes import EXIT_FAILED
from hvd_gan.cluster.hub import ECHO_SECONDS, FAREWELL_SECONDS, Hub
from hvd_gan.cluster.launcher import leave_exit_code
from hvd_gan.cluster.roll import BEAT_SECONDS
from hvd_gan.cluster.voice import say_last
from hvd_gan.cluster.wire import LONGEST_LINE, Wire

# From a report to the verdict: the hub may wait for a better cause, and for a file of rank 0.
TURN_SECONDS = 0.3
VERDICT_SECONDS = ECHO_SECONDS + 10


class Lifeline:
    """One rank's tie to the hub; rank 0 holds the `hub` itself too. `wire` is None where a rank
    could not reach it: such a rank speaks for itself.
    """

    def __init__(
        self, rank: int, root_host: str, stall_timeout: float, wire: Wire | None, hub: Hub | None
    ) -> None:
        self._rank = rank
        self._root_host = root_host
        self._wire = wire
        self._hub = hub
        self._activity = Activity()
        self._leaving = False
        self._farewell = threading.Event()
        if wire is not None:
            # The hub's own beats come every second.
            wire.wait_at_most(stall_timeout)
            for task in (self._beat, self._listen):
                threading.Thread(target=task, name=f"lifeline {task.__name__}", daemon=True).start()

    def beat(self, at: str | None = None) -> None:
        """Says that this rank has got on, and, with `at`, where it is now."""
        self._activity.beat(at)

    @property
    def beats(self) -> int:
        """How often this rank has got on."""
        return self._activity.beats

    def keep_last_words_in(self, folder: Path) -> None:
        """Where the ranks' tracebacks go. Rank 0 alone has a hub that writes them."""
        if self._hub is not None:
            self._hub.folder = folder

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What rank 0 does here is finished, within seconds, before a failed job ends."""
        if self._hub is None:
            yield
            return
        with self._hub.undisturbed:
            yield

    def report(self, error: BaseException, what: str, echo: bool) -> bool:
        """Tells the hub that this rank has failed; then the hub ends the job and this does not
        return. `echo` says that another rank's end may be the cause.

        Returns, with False, if the hub cannot be told.
        """
        # The end of it, if it is longer than a message may be.
        trace = "".join(traceback.format_exception(error))[-LONGEST_LINE // 4 :]
        with contextlib.suppress(OSError):
            if self._wire is not None:
                self._wire.send({"failed": what, "traceback": trace, "echo": echo})
                # The listener ends this process.
                threading.Event().wait(VERDICT_SECONDS)
        return False

    def leave(self) -> None:
        """Says that this rank is done, and waits until all are. Call when all have finished."""
        self._leaving = True
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.send({"bye": self._rank})
                # Until then rank 0 is listened to: it may still die.
                self._farewell.wait(FAREWELL_SECONDS)

    def _beat(self) -> None:
        assert self._wire is not None
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while not self._leaving:
                activity = self._activity
                self._wire.send({"beat": (activity.beats, activity.at, doing())})
                pause.wait(BEAT_SECONDS)

    def _listen(self) -> None:
        assert self._wire is not None
        end = "died without a word: it was killed, ran out of memory or crashed"
        try:
            while message := self._wire.receive():
                if "verdict" in message:
                    self._obey()
                if "farewell" in message:
                    self._farewell.set()
                    return
        except ConnectionResetError:
            pass
        except (OSError, ValueError) as error:
            end = f"cannot be reached any more: its host or the network is down ({error})"
            # Our own patience, not the kernel's, has an end without a number.
            if isinstance(error, TimeoutError) and error.errno is None:
                end = "is silent: it was stopped, or its host is overloaded"
        # Rank 0 cannot tell any more. Rank 1 speaks for all, or, if it is lost too, the next one:
        # when one has spoken and ended, the launcher ends the others.
        threading.Event().wait(min(TURN_SECONDS * max(self._rank - 1, 0), 10 * TURN_SECONDS))
        say_last(f"rank 0 on host {self._root_host} {end}")
        leave_exit_code(EXIT_FAILED)
        os._exit(EXIT_FAILED)

    def _obey(self) -> None:
        """Sends where this rank stood, and ends it; rank 0's hub ends rank 0."""
        assert self._wire is not None
        with contextlib.suppress(OSError):
            self._wire.send({"stacks": stacks()})
        if self._hub is None:
            os._exit(EXIT_FAILED)
