"""The last word: a message that stands below whatever a launcher prints at a job's end."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hvd_gan.cluster.launcher import LAST_WORDS_FILE, is_supervised, launcher_pid

# Speaks after the launcher's own many lines: waits for its end, 10 s at most. Whoever has started
# the launcher may only take note of it when this here, too, has let go of the screen: a zombie.
LAST_WORD = """
n=0
while grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null && [ $n -lt 200 ]
do sleep 0.05; n=$((n+1)); done
printf '%s\\n' "$2"
"""

# Where to speak while stderr is turned away.
_elsewhere: list[TextIO] = []


def say(message: str) -> None:
    """Writes a message to this process's stderr, if there is anybody to read it."""
    with contextlib.suppress(OSError, ValueError):
        print(f"hvd_gan: {message}", file=[sys.stderr, *_elsewhere][-1], flush=True)


@contextlib.contextmanager
def stderr_turned_away() -> Iterator[None]:
    """Sends what this process writes to file descriptor 2 nowhere, but for what is said here and
    for what faulthandler tells of a crash.
    """
    with open(os.devnull, "w") as nowhere, os.fdopen(os.dup(2), "w") as screen:
        os.dup2(nowhere.fileno(), 2)
        faulthandler.enable(screen)
        _elsewhere.append(screen)
        try:
            yield
        finally:
            os.dup2(screen.fileno(), 2)
            faulthandler.enable()
            _elsewhere.remove(screen)


def say_in_the_end(message: str) -> None:
    """Writes what an agreed end is to leave on the screen.

    Under a supervisor the ranks then end without an error, and the launcher is silent.
    """
    (say if is_supervised() else say_last)(message)


def say_last(message: str) -> None:
    """Writes a message now, and once more when the launcher has ended, to the launcher's stderr.

    mpirun and horovodrun print a dozen lines of their own after a rank has failed. A supervisor, if
    there is one, says it; else it works where the launcher runs on this host; on another one the
    first report stands above those lines.
    """
    say(message)
    if _leave(message):
        return
    launcher = launcher_pid()
    if launcher is None:
        return
    try:
        with open(f"/proc/{launcher}/fd/2", "ab", buffering=0) as screen:
            subprocess.Popen(
                ["/bin/sh", "-c", LAST_WORD, "last-word", str(launcher), f"hvd_gan: {message}"],
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except (OSError, ValueError):
        # No /proc, a screen that cannot be opened twice (a socket), or words that no command may
        # have: the report above stands.
        return


def last_words(path: Path) -> str | None:
    """What was left to be said last; of several sentences the first, as its cause is."""
    said = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return said[0] if said else None


def _leave(message: str) -> bool:
    """Whether a supervisor on this host will say it when the launcher has ended."""
    path = os.environ.get(LAST_WORDS_FILE, "")
    # On other hosts than the supervisor's there is no such folder.
    if not os.path.isdir(os.path.dirname(path)):
        return False
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{message}\n")
    except OSError:
        return False
    return True
