"""Train a staged GAN on one rank or many: `horovodrun -np 8 python -m hvd_gan.train ...`"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hvd_gan.cluster import together
from hvd_gan.cluster.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_STOPPED
from hvd_gan.cluster.launcher import leave_exit_code
from hvd_gan.cluster.network import NIC, choose_nic
from hvd_gan.cluster.stopping import StopRequest
from hvd_gan.cluster.together import STALL_TIMEOUT
from hvd_gan.cluster.world import World

if TYPE_CHECKING:
    from hvd_gan.cluster.elastic import Committed


def parser() -> argparse.ArgumentParser:
    """The command line of `train`."""
    arguments = argparse.ArgumentParser(
        prog="python -m hvd_gan.train",
        description=__doc__,
        epilog="A run is resumed by the same command. Without --preset and --config: the demo. "
        f"Exit codes: 0 trained; {EXIT_FAILED} failed; {EXIT_REFUSED} refused; {EXIT_STOPPED} "
        "stopped early with all saved (SIGTERM or SIGUSR1 to any rank, Ctrl-C, --max-time); "
        f"{EXIT_INTERRUPTED} stopped at once by a second Ctrl-C.",
    )
    arguments.add_argument("--preset", help="settings that come with the package: demo, glcic, ...")
    arguments.add_argument("--config", type=Path, help="a YAML file of settings, over the preset")
    arguments.add_argument("--data", type=Path, help="a folder of images, searched recursively")
    arguments.add_argument("--run", type=Path, help="the run's folder (default: runs/PRESET)")
    arguments.add_argument("--fresh", action="store_true", help="start over in a new folder")
    arguments.add_argument(
        "--init-from", metavar="RUN[:STEP]", help="start a new run from another run's weights"
    )
    arguments.add_argument(
        "--keep-going-on-save-error",
        action="store_true",
        help="when the disk is full or read-only: say so, train on, try again at the next occasion",
    )
    arguments.add_argument(
        "--max-time",
        type=duration,
        metavar="TIME",
        help="save and stop before: 2:00:00, 90m",
    )
    arguments.add_argument(
        "--stall-timeout",
        type=duration,
        default=STALL_TIMEOUT,
        metavar="TIME",
        help=f"end the job when no rank gets on for so long (default: {STALL_TIMEOUT:g} s)",
    )
    arguments.add_argument(
        "--nic", help=f"the network interface between hosts, for every layer (or {NIC})"
    )
    arguments.add_argument(
        "--elastic",
        action="store_true",
        help="go on when ranks are lost or come, under horovodrun --host-discovery-script",
    )
    arguments.add_argument("--verbose", action="store_true", help="let TensorFlow talk")
    arguments.add_argument(
        "overrides", nargs="*", metavar="key=value", help="settings: stages.joint.steps=500"
    )
    return arguments


def duration(text: str) -> float:
    """Seconds: 90, 90s, 15m, 3h, 2d, or as clocks have it, 15:00 and 2:00:00."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    if ":" in text:
        seconds = 0.0
        for part in text.split(":"):
            seconds = 60 * seconds + int(part)
    else:
        seconds = float(text.rstrip("smhd")) * units.get(text[-1:], 1)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def init_setting(text: str) -> str:
    """`RUN` or `RUN:STEP` as the setting `init`, in YAML."""
    run, colon, step = text.rpartition(":")
    if not colon or not step.isdigit():
        return json.dumps({"run": text})
    return json.dumps({"run": run, "step": int(step)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and trains. Returns the exit code."""
    try:
        options = parser().parse_intermixed_args(arguments)
        if options.elastic and options.fresh:
            parser().error("--elastic goes on in one folder: name a new --run, not --fresh")
    except SystemExit as end:
        # The reason stands on the screen: no supervisor has to look for one.
        leave_exit_code(int(end.code or 0))
        raise
    stop = StopRequest(options.max_time)
    stop.listen(options.elastic)
    choose_nic(options.nic)

    def job(world: World, committed: Committed | None = None) -> int:
        from hvd_gan.job import Request
        from hvd_gan.training import run_training

        preset = options.preset or (None if options.config else "demo")
        overrides = list(options.overrides)
        if options.data is not None:
            overrides += [
                "data.source=folder",
                f"data.path={json.dumps(str(options.data.absolute()))}",
            ]
        if options.init_from is not None:
            overrides.append(f"init={init_setting(options.init_from)}")
        run = options.run or Path("runs", options.config.stem if options.config else str(preset))
        files = (options.config,) if options.config else ()
        keep_going = options.keep_going_on_save_error
        request = Request(preset, files, tuple(overrides), run, options.fresh, stop, keep_going)
        return run_training(request, world, committed)

    run_job = together.run_elastic if options.elastic else together.run
    return run_job(job, options.verbose, options.stall_timeout)


if __name__ == "__main__":
    sys.exit(main())
