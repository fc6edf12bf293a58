"""The trainer: the loop over stages and steps, and nothing else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import Settings
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.program import Feed, Program
from hvd_gan.engine.train_ops import TrainOp


@dataclass(frozen=True)
class Progress:
    """Where a run stands: steps done in all, and in each stage."""

    run: int
    stages: dict[str, int]


def progress(program: Program, session: tf.compat.v1.Session) -> Progress:
    """Reads the counters."""
    run, stages = session.run((program.counters.run, program.counters.stages))
    return Progress(int(run), {name: int(steps) for name, steps in stages.items()})


def train(
    program: Program,
    session: tf.compat.v1.Session,
    feed: Feed,
    settings: Settings,
    monitors: Sequence[Monitor],
) -> None:
    """Trains what is left of the schedule, from where the counters stand.

    Every rank runs the same number of steps. Raises AgreedError, on all ranks at the same step,
    when a loss or gradient is not finite.
    """
    done = progress(program, session)
    # The position in the sample order is a function of the steps alone.
    feed.seek(session, done.run * settings.batch)
    step = done.run
    for train_op in program.train_ops:
        stage, stage_done = train_op.stage, done.stages[train_op.stage.name]
        if stage_done >= stage.steps:
            continue
        run_step = _step_function(train_op, session, feed, settings.backward_passes_per_step)
        for monitor in monitors:
            monitor.before_stage(stage, stage_done)
        for stage_step in range(stage_done + 1, stage.steps + 1):
            step += 1
            started = time.perf_counter()
            values = run_step()
            seconds = time.perf_counter() - started
            _check_finite(values, stage.name, step)
            report = Report(stage, stage_step, step, values, seconds)
            for monitor in monitors:
                monitor.after_step(report)
        for monitor in monitors:
            monitor.after_stage(report)


def _step_function(
    train_op: TrainOp, session: tf.compat.v1.Session, feed: Feed, passes: int
) -> Callable[[], dict[str, float]]:
    accumulate = session.make_callable(train_op.accumulate)
    finish = session.make_callable([list(train_op.report.values()), train_op.step])
    names = list(train_op.report)

    def run() -> dict[str, float]:
        try:
            for _ in range(passes - 1):
                accumulate()
            values, _ = finish()
        except tf.errors.OpError as error:
            raise feed.error() or error from None
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    return run


def _check_finite(values: dict[str, float], stage: str, step: int) -> None:
    """The values are reduced over ranks, so all ranks find the same and raise together."""
    wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise AgreedError(
            f"step {step}, stage {stage}: {', '.join(wrong)}; training has stopped and the last "
            "checkpoint stands. Lower the learning rate or set the optimizer's clip_norm, and "
            "resume with --fresh or from that checkpoint"
        )
