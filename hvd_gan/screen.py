"""What a person sees and what the log keeps: rank 0 speaks, the others are silent."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hvd_gan.cluster.launcher import launcher_pid, shows_on_terminal
from hvd_gan.cluster.voice import say_in_the_end
from hvd_gan.engine.writing import WriteError, append

PLAIN_WIDTH = 78
# Launchers put a tag before each line: with it, a line of ours still fits into 80 columns.
TAGGED_WIDTH = 64


class _Console(Console):
    """Goes quiet when whoever read it has left (`| head`); rich's own would end the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Screen:
    """A console for rank 0, and a log file with a time on each line once it is opened."""

    def __init__(self, speaks: bool) -> None:
        self.terminal = speaks and shows_on_terminal()
        width = None if self.terminal else PLAIN_WIDTH
        self.console = _Console(
            quiet=not speaks,
            highlight=False,
            force_terminal=self.terminal,
            width=width if launcher_pid() is None else TAGGED_WIDTH,
        )
        self._speaks = speaks
        self._log: Path | None = None
        self._log_failed = False

    def open_log(self, path: Path) -> None:
        """From now on, lines go to the file too."""
        self._log = path

    def say(self, line: str) -> None:
        """Prints a line and logs it."""
        self.console.print(line, soft_wrap=True, markup=False)
        self.log(line)

    def say_last(self, line: str) -> None:
        """Logs a line, and prints it where it stays the last one when the launcher has ended."""
        self.log(line)
        if self._speaks:
            say_in_the_end(line)

    def table(self, table: Table) -> None:
        """Prints a table and logs it."""
        self.console.print(table)
        plain = Console(width=PLAIN_WIDTH)
        with plain.capture() as capture:
            plain.print(table)
        self.log(capture.get())

    def log(self, line: str) -> None:
        """Logs a line without printing it. Where that fails, the screen tells it once."""
        if not self._speaks or self._log is None:
            return
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        stamped = "".join(f"{stamp} {part}\n" for part in line.splitlines())
        try:
            append(self._log, stamped.encode())
        except WriteError as error:
            # A log is no reason to end a job; what else cannot be written has a policy.
            if not self._log_failed:
                self._log_failed = True
                self.console.print(f"warning: {error}", soft_wrap=True, markup=False)
