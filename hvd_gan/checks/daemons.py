"""Can mpirun start ranks on another host? It is asked to, with a program that does nothing."""

from __future__ import annotations

import os
import re
import shutil

from hvd_gan.checks.findings import Finding, ok, warning
from hvd_gan.checks.mpi import name_of
from hvd_gan.checks.probe import output_of

START_SECONDS = 60
ATTEMPTS = 2


def check_daemon(name: str) -> Finding | None:
    """Whether the mpirun of the PATH reaches a host; None where there is no Open MPI to ask.

    mpirun starts a daemon there over ssh, which has to be found and to connect back to here.
    """
    program = shutil.which("mpirun")
    if program is None or not name_of(output_of([program, "--version"])[1]).startswith("Open MPI"):
        return None
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [program, *root, "--host", f"{name}:1", "-np", "1", "true"]
    # A second attempt: a network that has just come up loses first connections.
    for _ in range(ATTEMPTS):
        code, output = output_of(command, START_SECONDS)
        if code == 0:
            return ok("mpirun", "starts its daemon there")
    reason = f"code {code}" if code is not None else f"not within {START_SECONDS} s"
    if missing := re.search(r"(\S*(?:prted|orted)): (?:command )?not found", output):
        reason = f"{missing[1]} is not there"
    cure = (
        f"mpirun --prefix {os.path.dirname(os.path.dirname(program))}, and open all ports between "
        "the hosts; horovodrun --gloo does without"
    )
    return warning("mpirun", f"cannot start its daemon there: {reason}", cure)
