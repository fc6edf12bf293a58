"""What each stage would train, before anything is trained: `python -m hvd_gan.audit ...`

Needs no GPU, no launcher and no data. Exits 1 where training would be refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hvd_gan.cluster import together
from hvd_gan.cluster.world import World


def parser() -> argparse.ArgumentParser:
    """The command line of `audit`."""
    arguments = argparse.ArgumentParser(prog="python -m hvd_gan.audit", description=__doc__)
    arguments.add_argument("--preset", help="settings that come with the package")
    arguments.add_argument("--config", type=Path, help="a YAML file of settings, over the preset")
    arguments.add_argument("--model", help="a model by import path: my_package.my_gan:build")
    arguments.add_argument("--stages", type=Path, help="a YAML file with the stages (or a config)")
    arguments.add_argument("--depth", type=int, help="show scopes of this depth, not variables")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--verbose", action="store_true", help="let TensorFlow talk")
    arguments.add_argument("overrides", nargs="*", metavar="key=value", help="settings")
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and prints the ledger. Returns the exit code."""
    options = parser().parse_intermixed_args(arguments)

    def job(world: World) -> int:
        from hvd_gan.auditing import audit, report, show

        files = tuple(path for path in (options.config, options.stages) if path)
        overrides = [f"model.build={options.model}"] if options.model else []
        nothing = not (options.preset or files or options.model)
        preset = "demo" if nothing else options.preset
        ledger, settings = world.on_all(
            lambda: audit(preset, files, (*overrides, *options.overrides))
        )
        if options.json and world.is_root:
            print(json.dumps(report(ledger, settings), indent=1))
        elif world.is_root:
            show(ledger, settings, options.depth)
        return 1 if ledger.errors() else 0

    return together.run(job, options.verbose)


if __name__ == "__main__":
    sys.exit(main())
