"""Failing together: one rank's error ends every rank, and is the last thing on the screen."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

from hvd_gan.cluster.launcher import LaunchError, launcher_pid
from hvd_gan.cluster.quiet import import_tensorflow
from hvd_gan.cluster.world import AgreedError, World, start

EXIT_FAILED = 1
EXIT_REFUSED = 2

# A rank whose partner died sees a Horovod error soon after; the launcher ends it within this time.
GRACE_SECONDS = 8.0

# Speaks after the launcher's own many lines: waits for its end, 10 s at most.
LAST_WORD = """
n=0
while kill -0 "$1" 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
printf '%s\\n' "$2"
"""


def run(job: Callable[[World], int], verbose: bool = False) -> int:
    """Starts the world, runs `job` on it and returns its exit code.

    An AgreedError is reported once, by rank 0; every rank then returns EXIT_REFUSED. Any other
    exception is reported by the rank that raised it and ends all ranks, non-zero, at once.
    """
    world: World | None = None
    try:
        import_tensorflow(verbose)
        world = start()
        return job(world)
    except AgreedError as error:
        assert world is not None
        if world.is_root:
            message = f"hvd_gan: {error}"
            print(message, file=sys.stderr, flush=True)
            if world.size > 1:
                _speak_last(message)
        # All ranks raise it, so all meet here: none exits, and is taken for a failure, before
        # rank 0 has spoken.
        world.gather(None)
        return EXIT_REFUSED
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        fail(world, error)
        return EXIT_FAILED


def fail(world: World | None, error: BaseException) -> None:
    """Reports an error of this rank and ends the job. Does not return if there are other ranks."""
    if _is_echo(error):
        # Give the launcher time to end this rank silently: the cause is another rank's.
        time.sleep(GRACE_SECONDS)
    if isinstance(error, LaunchError):
        message = f"hvd_gan: {error}"
    else:
        traceback.print_exception(error)
        who = str(world) if world else "a rank that does not know its number yet"
        what = " ".join(str(error).split()) or "no message"
        message = f"hvd_gan: {who} failed: {type(error).__name__}: {what}"
    print(message, file=sys.stderr, flush=True)
    if world is None or world.size > 1:
        _speak_last(message)
        sys.stdout.flush()
        if world:
            world.carrier.abort(EXIT_FAILED)
        os._exit(EXIT_FAILED)


def _is_echo(error: BaseException) -> bool:
    """True for the error that Horovod raises on a rank because another one is gone."""
    text = str(error)
    return "Horovod" in text and ("shut down" in text or "has failed" in text or "peer" in text)


def _speak_last(message: str) -> None:
    """Writes the message once more when the launcher has ended, to the launcher's own stderr.

    mpirun and horovodrun print a dozen lines of their own after a rank has failed. Works where the
    launcher runs on this host; on another one the first report stands above those lines.
    """
    launcher = launcher_pid()
    if launcher is None:
        return
    try:
        with open(f"/proc/{launcher}/fd/2", "ab", buffering=0) as screen:
            subprocess.Popen(
                ["/bin/sh", "-c", LAST_WORD, "last-word", str(launcher), message],
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except OSError:
        # No /proc, or a screen that cannot be opened twice (a socket): the report above stands.
        return
