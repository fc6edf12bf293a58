"""A visit to a host: over ssh, or in a process here; the host's answers are `survey.py`'s."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvd_gan.checks import survey
from hvd_gan.checks.findings import Finding, error
from hvd_gan.checks.probe import last_line

CONNECT_SECONDS = 8
ANSWER_SECONDS = 30.0
CLOCK_ROUNDS = 5
# Reads as many characters of its input as program text; the questions come after them.
BOOT = "import sys; exec(sys.stdin.read(int(sys.argv[1])) + '\\nmain()')"

# What ssh says, why, and what to do; HOST and USER stand for themselves.
SSH_ERRORS = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": (
        "its ssh key has changed",
        "if that is right: ssh-keygen -R HOST, then ssh HOST once by hand",
    ),
    "Host key verification failed": (
        "its ssh key is not known here",
        "ssh HOST once by hand, or ssh-keyscan HOST >> ~/.ssh/known_hosts",
    ),
    "Permission denied": (
        "it does not let USER in without a password",
        "ssh-copy-id HOST (after ssh-keygen, if there is no key yet)",
    ),
    "Could not resolve hostname": (
        "its name is not known here",
        "check the spelling, add it to /etc/hosts, or give its address",
    ),
    "Connection refused": ("no sshd listens there", "start sshd on HOST (systemctl start ssh)"),
    "timed out": (
        "it does not answer",
        "is it up, and does the firewall let ssh (port 22) through?",
    ),
    "No route to host": ("no network leads to it", "is it up and on the same network?"),
    "Network is unreachable": ("no network leads to it", "is this machine's network up?"),
    "Connection reset": (
        "it closes the connection",
        "see sshd's log on HOST: journalctl -u ssh",
    ),
    "Connection closed by": (
        "it closes the connection",
        "see sshd's log on HOST: journalctl -u ssh",
    ),
}

# What a shell ends with if it cannot start a program; ssh itself ends with 255, whatever failed.
NOT_STARTED = {126: "one may not run", 127: "there is no"}


class Unreachable(Exception):  # noqa: N818 - a finding about a host
    """A host that cannot be visited; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.detail)
        self.finding = finding


@dataclass(frozen=True)
class Host:
    """One entry of `--hosts`."""

    name: str
    slots: int


def is_here(name: str) -> bool:
    """Whether a host's name means this machine, where launchers start ranks without ssh."""
    address = survey.resolve(name)
    own = {nic["address"] for nic in survey.nics()}
    return bool(address) and (address.startswith("127.") or address in own)


class Visit:
    """A conversation with a host. `facts` are those of `survey()`, with the `port` it listens on.

    Raises Unreachable from the constructor. Used as a context; its end ends the far side too.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        # In memory, as there may be no folder for temporary files; not a pipe, whose other end a
        # connection that ssh shares would hold open.
        self._errors = os.fdopen(os.memfd_create("ssh"), "w+", errors="replace")
        started = time.monotonic()
        try:
            self._process = subprocess.Popen(
                _command(host.name),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            cure = "install it: apt-get install openssh-client"
            raise Unreachable(error("ssh", "there is no ssh on this machine", cure)) from None
        try:
            self.facts = self._hear(Path(survey.__file__).read_text(), _is_survey)
        except OSError:
            problem = self._why()
            self.close()
            raise Unreachable(problem) from None
        self.seconds = time.monotonic() - started

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, question: Any) -> Any:
        """The answer to a question. Raises OSError if none comes."""
        return self._hear(json.dumps(question) + "\n")

    def clock_offset(self) -> float:
        """By how many seconds the host's clock is ahead of ours, by the quickest of some rounds."""
        rounds = []
        for _ in range(CLOCK_ROUNDS):
            asked = time.time()
            theirs = self.ask("time")
            heard = time.time()
            rounds.append((heard - asked, theirs - (asked + heard) / 2))
        return min(rounds)[1]

    def close(self) -> None:
        """Ends the conversation."""
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _hear(self, text: str, fits: Callable[[Any], bool] = lambda answer: True) -> Any:
        """Sends a text and returns the next JSON that comes back and fits."""
        assert self._process.stdin and self._process.stdout
        timer = threading.Timer(ANSWER_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
            for line in self._process.stdout:
                # A shell's start-up files may have something to say first, and a line that is cut
                # short is the last one.
                with contextlib.suppress(ValueError):
                    if fits(answer := json.loads(line)):
                        return answer
        finally:
            timer.cancel()
        raise OSError(f"{self.host.name} does not answer")

    def _why(self) -> Finding:
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._errors.seek(0)
        said, code = self._errors.read(), self._process.wait()
        name = self.host.name
        if code in NOT_STARTED:
            cure = f"install at the same path there, or share {sys.prefix} between the hosts"
            return error("python", f"{NOT_STARTED[code]} {sys.executable}", cure)
        for words, (what, cure) in SSH_ERRORS.items():
            if words in said:
                user = getpass.getuser()
                return error("ssh", what.replace("USER", user), cure.replace("HOST", name))
        what = last_line(said) or f"no answer in {ANSWER_SECONDS:g} s"
        return error("ssh", f"{what} (code {code})", f"try by hand: ssh {name} {sys.executable} -V")


def _is_survey(answer: Any) -> bool:
    return isinstance(answer, dict) and "port" in answer


def _command(name: str) -> Sequence[str]:
    """Starts `survey.py` on a host, in the folder and with the PYTHONPATH that ranks would have."""
    python = [sys.executable, "-c", BOOT, str(len(Path(survey.__file__).read_text()))]
    if is_here(name):
        return python
    path = os.environ.get("PYTHONPATH", "")
    script = (
        f"cd {shlex.quote(survey.working_folder())} 2>/dev/null; "
        + (f"PYTHONPATH={shlex.quote(path)} " if path else "")
        + f"exec {shlex.join(python)}"
    )
    ssh = ["ssh", "-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    # `sh`: the login shell may be another, with another syntax.
    return [*ssh, "--", name, f"sh -c {shlex.quote(script)}"]
