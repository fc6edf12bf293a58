"""Failing together: one rank's error ends every rank, and is the last thing on the screen."""

from __future__ import annotations

import faulthandler
import os
import re
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from hvd_gan.cluster.alone import WAITING_SECONDS, end_later, watched, who
from hvd_gan.cluster.exit_codes import EXIT_FAILED, EXIT_REFUSED
from hvd_gan.cluster.launcher import (
    LaunchError,
    end_with_the_connection,
    leave_exit_code,
    leave_start,
)
from hvd_gan.cluster.quiet import import_tensorflow, open_closed_streams
from hvd_gan.cluster.voice import say, say_in_the_end, say_last
from hvd_gan.cluster.world import AgreedError, World, start

if TYPE_CHECKING:
    from hvd_gan.cluster.elastic import Committed

STALL_TIMEOUT = 120.0
# From the end of the job to the end of the process.
EXIT_SECONDS = 60.0
# Horovod's own, in seconds: how long its elastic driver waits for hosts.
ELASTIC_TIMEOUT = 600
# Of TensorFlow's errors on one line; the traceback has the rest.
LONGEST = 300
# Of any other's: what a terminal, a message to the hub and a person can take.
LONGEST_OF_OTHERS = 4000
# How often an elastic job may begin anew without having come any further.
FRUITLESS = 5


def run(
    job: Callable[[World], int], verbose: bool = False, stall_timeout: float = STALL_TIMEOUT
) -> int:
    """Starts the world, runs `job` on it and returns its exit code, on all ranks together.

    An AgreedError is reported once, by rank 0; every rank then returns EXIT_REFUSED. Any other
    exception, on any rank, ends all ranks at once with EXIT_FAILED; so does a rank that dies, and
    `stall_timeout` seconds without progress on any rank.
    """
    world: World | None = None
    end_with_the_connection()
    # A crash in native code then says in which Python function it came.
    open_closed_streams()
    faulthandler.enable()
    starting = end_later(stall_timeout, "has not started")
    try:
        import_tensorflow(verbose)
        world = start(stall_timeout)
        starting.cancel()
        leave_start()
        code = _agreed(job, world)
        # Every rank comes here, at its job's end or with the error that all have, and so with one
        # code: none exits, and is taken for a failure, before the others are done.
        told = world.agree(leave_exit_code(code))
        world.gather(None)
        world.lifeline.leave()
    except BaseException as error:
        fail(world, error)
    end_later(EXIT_SECONDS, "has not ended")
    # To a launcher, any other code than 0 is a failure that it has to talk about.
    return 0 if told else code


def run_elastic(
    job: Callable[[World, Committed | None], int],
    verbose: bool = False,
    stall_timeout: float = STALL_TIMEOUT,
) -> int:
    """Like `run`, under Horovod's elastic driver: `job` is called anew whenever a rank is lost or
    has come, with the world as it is then and with what this rank has committed.

    An error of this rank's own ends this rank; the driver then goes on without its host.
    """
    world: World | None = None
    end_with_the_connection()
    open_closed_streams()
    faulthandler.enable()
    # So long the driver waits for hosts; it does not know of a rank that lives and is silent.
    meeting = stall_timeout + int(os.environ.get("HOROVOD_ELASTIC_TIMEOUT", ELASTIC_TIMEOUT))
    try:
        import_tensorflow(verbose)
        from hvd_gan.cluster.elastic import Committed, hosts_heard, is_lost_rank

        with hosts_heard(Committed()) as committed:
            code, held, fruitless = None, None, 0
            while code is None:
                starting = end_later(meeting, "has not met the other ranks")
                try:
                    world = start(stall_timeout, elastic=True)
                    starting.cancel()
                    committed.join(world.broadcast)
                    with watched(world.lifeline, stall_timeout):
                        end = _agreed(lambda world: job(world, committed), world)
                        told = world.agree(leave_exit_code(end))
                    code = end
                except Exception as error:
                    # What is no loss, but looks like one, would come again for ever.
                    fruitless = fruitless + 1 if committed.values is held else 0
                    held = committed.values
                    if not is_lost_rank(error) or fruitless > FRUITLESS:
                        raise
                finally:
                    starting.cancel()
    except BaseException as error:
        # The job goes on without this rank, if others are left.
        traceback.print_exception(error)
        say(f"{world or who()} failed: {_what(error)}")
        os._exit(EXIT_REFUSED if isinstance(error, LaunchError) else EXIT_FAILED)
    end_later(EXIT_SECONDS, "has not ended", last=False)
    return 0 if told else code


def _agreed(job: Callable[[World], int], world: World) -> int:
    try:
        return job(world)
    except AgreedError as error:
        if world.is_root:
            say_in_the_end(str(error))
        return EXIT_REFUSED


def fail(world: World | None, error: BaseException) -> NoReturn:
    """Reports an error of this rank and ends the job. Does not return."""
    what = _what(error)
    if world is None and _is_echo(error):
        # Another rank has died while all were starting: the launcher ends this one meanwhile.
        threading.Event().wait(WAITING_SECONDS)
    if world is None:
        if not isinstance(error, LaunchError):
            traceback.print_exception(error)
            what = f"{who()} failed: {what}"
        say_last(what)
        code = EXIT_REFUSED if isinstance(error, LaunchError) else EXIT_FAILED
        leave_exit_code(code)
        os._exit(code)
    elif not world.lifeline.report(error, what, _is_echo(error)):
        traceback.print_exception(error)
        say_last(f"{world} failed: {what}")
    os._exit(EXIT_FAILED)


def _what(error: BaseException) -> str:
    """An error on one line."""
    # What cannot be printed, a NUL among it, as an escape.
    text = "".join(
        each if each.isprintable() else ascii(each)[1:-1] for each in " ".join(str(error).split())
    )
    if isinstance(error, LaunchError):
        return text
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SystemExit):
        return f"the program left by sys.exit({error.code!r}) in mid-run"
    what = f"{type(error).__name__}: {text or 'no message'}"
    if not type(error).__module__.startswith("tensorflow"):
        return what if len(what) <= LONGEST_OF_OTHERS else f"{what[:LONGEST_OF_OTHERS]} ..."
    # The exception of a Python function in the graph stands deep in TensorFlow's many lines.
    inner = re.findall(r"^\s*([\w.]*(?:Error|Exception|Exit): .+)$", str(error), re.MULTILINE)
    what = inner[-1] if inner else what
    return what if len(what) <= LONGEST else f"{what[:LONGEST]} ..."


def _is_echo(error: BaseException) -> bool:
    """True for the error that Horovod or MPI raises on a rank because another one is gone."""
    text = str(error)
    horovod = "Horovod" in text and ("shut down" in text or "has failed" in text or "peer" in text)
    return horovod or type(error).__module__.startswith("mpi4py")
