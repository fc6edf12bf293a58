"""Trains like `hvd_gan.train`, but one weight changes on rank 1 after step 3, behind everything."""

from __future__ import annotations

import sys

from hvd_gan import train, training, watching
from hvd_gan.engine.monitors.monitor import Monitor


class Nudge(Monitor):
    def __init__(self, run) -> None:
        self._run = run

    def after_step(self, report) -> None:
        if report.step == 3 and self._run.job.world.rank == 1:
            [bias] = [v for v in self._run.program.variables if v.op.name == "generator/bias"]
            value = self._run.session.run(bias)
            value[2] += 1e-7
            self._run.session.run(bias.initializer, {bias.initializer.inputs[1]: value})


def make_monitors(run):
    return [*watching.make_monitors(run), Nudge(run)]


if __name__ == "__main__":
    training.make_monitors = make_monitors
    sys.exit(train.main())
