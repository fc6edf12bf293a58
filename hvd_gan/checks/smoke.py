"""A training of ten steps: all stages, a checkpoint, and weights that are equal on all ranks."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from hvd_gan.checks.findings import Finding, error, ok
from hvd_gan.cluster.stopping import StopRequest
from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.job import Request

STEPS = {"completion": 4, "discriminator": 3, "joint": 3}
IMAGES = 4


def train_a_little(world: World) -> Finding:
    """Trains the demo in a folder that is gone afterwards. A collective.

    `verify` compares every variable over all ranks after each stage.
    """
    settings = (
        f"batch={IMAGES * world.size}",
        "verify=true",
        "evaluation.samples=0",
        *(f"stages.{name}.steps={steps}" for name, steps in STEPS.items()),
    )
    started, folder = time.perf_counter(), None
    try:
        # Rank 0 alone writes, so the folder need not exist on other hosts.
        folder = Path(world.on_root(tempfile.mkdtemp))
        from hvd_gan.training import run_training

        request = Request("demo", (), settings, folder / "run", False, StopRequest())
        run_training(request, world)
    except AgreedError as problem:
        cure = "python -m hvd_gan.train --preset demo --verbose shows more"
        return error("training", " ".join(str(problem).split()), cure)
    finally:
        if world.is_root and folder:
            shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - started
    equal = f"; weights equal on all {world.size} ranks" if world.size > 1 else ""
    return ok("training", f"{sum(STEPS.values())} steps of the demo in {seconds:.0f} s{equal}")
