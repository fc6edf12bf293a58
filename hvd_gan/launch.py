"""Start a job, and start it again when it fails: `hvd-gan launch --restarts 3 mpirun -np 8 ...`"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from hvd_gan.cluster.network import NIC
from hvd_gan.cluster.supervisor import supervise


def parser() -> argparse.ArgumentParser:
    """The command line of `launch`."""
    arguments = argparse.ArgumentParser(prog="python -m hvd_gan.launch", description=__doc__)
    arguments.add_argument(
        "--restarts", type=int, default=0, metavar="N", help="how often at most (default: never)"
    )
    arguments.add_argument("--nic", help=f"the network interface between hosts (or {NIC})")
    arguments.add_argument(
        "command", nargs=argparse.REMAINDER, help="mpirun or horovodrun with all that follows"
    )
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the launcher and returns the job's exit code."""
    options = parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser().error("name the launcher: mpirun -np 2 python -m hvd_gan.train ...")
    if options.restarts and "--fresh" in command:
        parser().error("--fresh would start over at each restart: name a new --run instead")
    if options.nic:
        os.environ[NIC] = options.nic
    return supervise(command, options.restarts)


if __name__ == "__main__":
    sys.exit(main())
