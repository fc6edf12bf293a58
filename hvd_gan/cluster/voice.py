"""The last word: a message that stands below whatever a launcher prints at a job's end."""

from __future__ import annotations

import contextlib
import subprocess
import sys

from hvd_gan.cluster.launcher import is_supervised, launcher_pid

# Speaks after the launcher's own many lines: waits for its end, 10 s at most. Whoever has started
# the launcher may only take note of it when this here, too, has let go of the screen: a zombie.
LAST_WORD = """
n=0
while grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null && [ $n -lt 200 ]
do sleep 0.05; n=$((n+1)); done
printf '%s\\n' "$2"
"""


def say(message: str) -> None:
    """Writes a message to this process's stderr, if there is anybody to read it."""
    with contextlib.suppress(OSError, ValueError):
        print(f"hvd_gan: {message}", file=sys.stderr, flush=True)


def say_in_the_end(message: str) -> None:
    """Writes what an agreed end is to leave on the screen.

    Under a supervisor the ranks then end without an error, and the launcher is silent.
    """
    (say if is_supervised() else say_last)(message)


def say_last(message: str) -> None:
    """Writes a message now, and once more when the launcher has ended, to the launcher's stderr.

    mpirun and horovodrun print a dozen lines of their own after a rank has failed. Works where the
    launcher runs on this host; on another one the first report stands above those lines.
    """
    say(message)
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
    except OSError:
        # No /proc, or a screen that cannot be opened twice (a socket): the report above stands.
        return
