"""Around a launcher: Ctrl-C that lets the ranks save first, and starting again after a failure.

mpirun kills its ranks half a second after Ctrl-C, and horovodrun says 1 whatever they say. So a
launcher runs as a child in a process group of its own; signals come here, and are handed on as what
ranks understand.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial

import psutil

from hvd_gan.cluster.exit_codes import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_STOPPED,
    FINAL,
)
from hvd_gan.cluster.launcher import (
    EXIT_FILE,
    LAST_WORDS_FILE,
    LAUNCHERS,
    STARTED,
    LaunchError,
    die_with_parent,
    leave_exit_code,
)
from hvd_gan.cluster.network import check_nic, launcher_environment, with_nic
from hvd_gan.cluster.scratch import Scratch
from hvd_gan.cluster.voice import last_words, say
from hvd_gan.cluster.witness import KILLED, Witness, catches, descendants, listeners, ranks_of

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
# From killing the ranks to killing the launcher.
PATIENCE_SECONDS = 10.0
# From rank 0's failure to killing a launcher that does not end, and from the end of all ranks here
# before they had met those elsewhere.
ABANDONED_SECONDS = 6.0
ALONE_SECONDS = 30.0
# Says that a launcher inside this one is to be started as it is.
SUPERVISED = "HVD_GAN_SUPERVISED"


def supervise(command: Sequence[str], restarts: int = 0) -> int:
    """Runs a launcher, again up to `restarts` times while its job fails, and returns its code."""
    if SUPERVISED in os.environ:
        os.execvp(command[0], list(command))
    try:
        check_nic()
    except LaunchError as error:
        say(str(error))
        return EXIT_REFUSED
    for restart in range(restarts + 1):
        job = _Job(command)
        try:
            code = job.run()
        except OSError as error:
            say(f"{command[0]} cannot be started: {error.strerror}")
            return EXIT_REFUSED
        if code in FINAL or job.asked or restart == restarts:
            break
        say(f"the job has ended with code {code}; restart {restart + 1} of {restarts}")
    return code


class _Job:
    """One run of a launcher."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = with_nic(command, os.environ)
        self._pending: list[int] = []
        # Its driver waits for hosts, with no rank if need be.
        self._trains = any("hvd_gan.train" in word or word == "train" for word in command)
        self._elastic = any(word.startswith("--host-discovery-script") for word in command)
        self.asked = False
        self._stopped: tuple[int, str] | None = None
        self._processes: list[psutil.Process] = []

    def run(self) -> int:
        """The code that rank 0 has left, if it was on this host; else the launcher's own.

        Ranks that have left a code end with 0, so the launcher's own tells of an accident after it.
        """
        with Scratch() as self._scratch, self._signals():
            environment = {
                **launcher_environment(os.environ),
                **self._scratch.environment(os.environ),
                EXIT_FILE: str(self._scratch.note),
                LAST_WORDS_FILE: str(self._scratch.words),
                SUPERVISED: "1",
            }
            self._launcher = subprocess.Popen(
                self._command,
                env=environment,
                process_group=0,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),
            )
            code = self._wait()
            said = self._scratch.note.read_text()
            if code < 0:
                # What it leaves behind lives on for a moment.
                self._scratch.look(process.pid for process in self._processes)
                self._end_orphans()
            words = last_words(self._scratch.words)
        if self._stopped is not None:
            code, why = self._stopped
            say(why)
            return code
        if code < 0:
            say(f"the launcher was ended by signal {-code}; the same command goes on")
        code = code if code >= 0 else KILLED - code
        if not said and self._elastic and code:
            say("the job has ended with too few hosts left; the same command goes on")
        if words is None and not said and not self.asked:
            words = self._witness.testimony(code)
        if words is not None:
            say(words)
        if said == STARTED:
            # A signal's number is a launcher's word for how a rank has failed.
            code = code if 0 < code < KILLED else EXIT_FAILED
        elif said:
            code = int(said) or code
        if said:
            # For a supervisor around this one: a job script.
            leave_exit_code(code)
        return code

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        # What was to be ignored, as by nohup, still is.
        heard = [number for number in ASKING if signal.getsignal(number) != signal.SIG_IGN]
        before = {
            number: signal.signal(number, lambda number, frame: self._pending.append(number))
            for number in heard
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait(self) -> int:
        """The launcher's code; what signals ask for is done here, outside of their handlers."""
        self._witness = Witness(self._launcher.pid)
        self._count = 0
        failed_for, has_started = 0.0, False
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._launcher.wait(0.1)
            said = self._scratch.note.read_text()
            failed_for += 0.1 * (said == str(EXIT_FAILED))
            self._count += 1
            has_started, before = bool(said), has_started
            if self._count % 20 == 0 or has_started != before:
                self._look()
            starting = not said and not self._elastic
            alone_for = self._witness.look() if starting else 0.0
            # mpirun waits for a host that it cannot reach, for many minutes.
            if failed_for > ABANDONED_SECONDS or alone_for > ALONE_SECONDS:
                self._kill()
            while self._pending:
                number = self._pending.pop(0)
                if not self.asked:
                    self.asked = True
                    self._ask(number)
                # Launchers' and schedulers' own signals come more than once.
                elif number == signal.SIGINT:
                    self._stop_at_once()
                    self._stopped = EXIT_INTERRUPTED, "stopped at once; the last checkpoint stands"

    def _look(self) -> None:
        """Takes down what there is, to know it when the launcher cannot be asked any more."""
        self._processes = descendants(self._launcher.pid)
        self._scratch.look(process.pid for process in self._processes)

    def _ask(self, number: int) -> None:
        """Lets the ranks save and stop, if they can; else ends them."""
        ranks, started = ranks_of(self._launcher.pid), self._scratch.note.read_text()
        asked = listeners(self._launcher.pid, signal.SIGUSR1)
        if not ranks:
            # mpirun hands it on to ranks on other hosts.
            mpiruns = [p.pid for p in descendants(self._launcher.pid) if _is_mpirun(p)]
            asked = [pid for pid in mpiruns if catches(pid, signal.SIGUSR1)]
        if not asked:
            self._stop_at_once()
            self._stopped = KILLED + number, "stopped"
            if self._trains and ranks and not started:
                self._stopped = EXIT_STOPPED, "stopped before the start; the same command goes on"
            elif self._trains:
                self._stopped = (
                    EXIT_INTERRUPTED,
                    (
                        "stopped at once, as no rank here could be asked to save; the same command "
                        "goes on from the last checkpoint"
                    ),
                )
            return
        for pid in asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        # The name under which the ranks will tell of it.
        name = "" if number == signal.SIGUSR1 else ", asked by SIGUSR1"
        say(f"the ranks will stop after their step{name}, and save; Ctrl-C stops them at once")

    def _stop_at_once(self) -> None:
        self._processes = descendants(self._launcher.pid)
        for pid in ranks_of(self._launcher.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._launcher.terminate()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._launcher.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self._kill()
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Waits for what the launcher has left behind: its ranks save, or fall over it."""
        others = [each for each in self._processes if each.pid != self._launcher.pid]
        _, alive = psutil.wait_procs(others, timeout=PATIENCE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _kill(self) -> None:
        for process in descendants(self._launcher.pid):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _is_mpirun(process: psutil.Process) -> bool:
    try:
        return process.name() in LAUNCHERS
    except psutil.Error:
        return False
