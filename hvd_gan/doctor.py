"""Does what is here work together? `python -m hvd_gan.doctor`, also under a launcher on all ranks.

Exit codes: 0 all is well, or only noted; 1 there are warnings; 2 there are errors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

TOO_OLD = "{} cannot run this package; 3.11 to 3.13 can"
CURE = "PYTHON=python3.11 ./install.sh makes an environment with one that can"


def parser() -> argparse.ArgumentParser:
    """The command line of `doctor`."""
    summary, codes = str(__doc__).split("\n\n")
    arguments = argparse.ArgumentParser(
        prog="python -m hvd_gan.doctor", description=summary, epilog=codes
    )
    # With hosts there is neither a training nor a launch to leave out.
    either = arguments.add_mutually_exclusive_group()
    either.add_argument(
        "--hosts", metavar="a:4,b:4", help="hosts and slots to check over ssh before a launch"
    )
    either.add_argument(
        "--quick", action="store_true", help="leave the network and the trial training out"
    )
    arguments.add_argument("--nic", help="the network interface that ranks are to use, as in train")
    arguments.add_argument("--json", action="store_true", help="print a list of findings as JSON")
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks, prints the report (on one rank) and returns the exit code (the same on all)."""
    # Nothing heavy is imported here: the doctor comes when TensorFlow, Horovod or NumPy do not.
    options = parser().parse_args(arguments)
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout may be run with any Python
        return _too_old(options.json)
    if options.nic is not None:
        # For the processes that the checks start.
        os.environ["HVD_GAN_NIC"] = options.nic
    if options.hosts is None:
        from hvd_gan.checks.here import check_here

        return check_here(options.quick, options.json)
    from hvd_gan.checks.hosts import check_hosts, parse_hosts

    try:
        hosts = parse_hosts(options.hosts)
    except ValueError as problem:
        parser().error(f"--hosts: {problem}")
    return check_hosts(hosts, options.json, options.nic)


def _too_old(as_json: bool) -> int:
    """Says so without the checks, which such a Python cannot read."""
    detail = TOO_OLD.format(sys.version.split()[0])
    finding: dict[str, Any] = {"name": "python", "severity": "error", "detail": detail}
    finding.update({"cure": CURE, "rank": None, "host": None, "rows": []})
    print(json.dumps([finding], indent=1) if as_json else f"error  python  {detail}\ncure: {CURE}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
