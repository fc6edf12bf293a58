"""Train a staged GAN on one rank or many: `horovodrun -np 8 python -m hvd_gan.train ...`"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hvd_gan.cluster import together
from hvd_gan.cluster.world import World


def parser() -> argparse.ArgumentParser:
    """The command line of `train`."""
    arguments = argparse.ArgumentParser(
        prog="python -m hvd_gan.train",
        description=__doc__,
        epilog="A run is resumed by the same command. Without --preset and --config: the demo.",
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
    arguments.add_argument("--verbose", action="store_true", help="let TensorFlow talk")
    arguments.add_argument(
        "overrides", nargs="*", metavar="key=value", help="settings: stages.joint.steps=500"
    )
    return arguments


def init_setting(text: str) -> str:
    """`RUN` or `RUN:STEP` as the setting `init`, in YAML."""
    run, colon, step = text.rpartition(":")
    if not colon or not step.isdigit():
        return json.dumps({"run": text})
    return json.dumps({"run": run, "step": int(step)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and trains. Returns the exit code."""
    options = parser().parse_intermixed_args(arguments)

    def job(world: World) -> int:
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
        request = Request(preset, files, tuple(overrides), run, options.fresh, keep_going)
        return run_training(request, world)

    return together.run(job, options.verbose)


if __name__ == "__main__":
    sys.exit(main())
