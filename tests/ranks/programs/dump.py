"""Trains like `hvd_gan.train`, and every rank leaves its own variables after each stage."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hvd_gan import train, training, watching
from hvd_gan.engine.monitors.monitor import Monitor


class Dump(Monitor):
    def __init__(self, run) -> None:
        self._run = run

    def before_stage(self, visit, done) -> None:
        self._write(f"before-{visit.label}")

    def after_stage(self, report) -> None:
        self._write(f"after-{report.visit.label}")

    def _write(self, moment: str) -> None:
        rank = self._run.job.world.rank
        path = Path(sys.argv[sys.argv.index("--run") + 1]).parent / f"{moment}-rank{rank}.npz"
        np.savez(path, **self._run.program.read(self._run.session))


def make_monitors(run):
    return [*watching.make_monitors(run), Dump(run)]


training.make_monitors = make_monitors
sys.exit(train.main())
