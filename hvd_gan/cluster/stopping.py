"""Asking a job to stop early: by a signal, by Ctrl-C, or because its time is up."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from hvd_gan.cluster.exit_codes import EXIT_INTERRUPTED, EXIT_STOPPED
from hvd_gan.cluster.voice import say

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class StopRequest:
    """Whether this rank wants the job to stop at the next step, and why.

    All ranks then agree on it: a signal to one of them is enough. A second Ctrl-C stops at once;
    other signals may come again, as launchers send one after another. While a rank still waits for
    the others to start, there is nothing to save, and a launcher sends SIGTERM where one of them
    has died: it ends at once.
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        self.reason: str | None = None
        self.has_started = False
        self._max_seconds = max_seconds
        self._started = time.monotonic()
        self._asked: float | None = None
        self._reserve = min(60.0, 0.02 * max_seconds) if max_seconds else 0.0

    def listen(self, elastic: bool = False) -> None:
        """Takes the signals from now on. Call on the main thread.

        In an elastic job SIGTERM is left to end the rank that it is sent to: its host goes, and the
        others stay.
        """
        # Python runs its handlers between its own instructions, which may be a long step later. The
        # descriptor is written to at once, whatever the main thread is in.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        for number in SIGNALS:
            if elastic and number == signal.SIGTERM:
                continue
            # A handler there must be, or the signal would not be taken.
            signal.signal(number, lambda number, frame: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._read, args=(reader,), name="signals", daemon=True).start()

    def wanted(self) -> bool:
        """Whether this rank wants to stop. To be asked before every step.

        Before the time is up by twice the longest pause between two questions: what a step with
        its checkpoint and its evaluation has taken at most.
        """
        if self.reason is None and self._max_seconds is not None:
            now = time.monotonic()
            if self._asked is not None:
                self._reserve = max(self._reserve, 2 * (now - self._asked))
            self._asked = now
            # Never more than half of the time, so that every job gets on.
            reserve = min(self._reserve, self._max_seconds / 2)
            if now - self._started + reserve >= self._max_seconds:
                self.reason = "--max-time"
        return self.reason is not None

    def _read(self, reader: int) -> None:
        while numbers := os.read(reader, 64):
            for number in numbers:
                with contextlib.suppress(ValueError):
                    self._take(signal.Signals(number))

    def _take(self, number: signal.Signals) -> None:
        if number not in SIGNALS:
            return
        if self.reason is not None and number == signal.SIGINT:
            say("interrupted again: stopped at once, the last checkpoint stands")
            os._exit(EXIT_INTERRUPTED)
        if number == signal.SIGTERM and not self.has_started:
            os._exit(EXIT_STOPPED)
        if self.reason is None:
            self.reason = "Ctrl-C" if number == signal.SIGINT else number.name
