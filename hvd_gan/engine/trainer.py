"""The trainer: the loop over the schedule's visits and their steps, and nothing else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import Settings
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.program import Feed, Program
from hvd_gan.engine.resuming import progress
from hvd_gan.engine.stages import Visit
from hvd_gan.engine.train_ops import TrainOp

# Makes a step, given whether this rank wants to stop. Returns the reported values, whether the
# stage has reached its plateau, and whether any rank wants to stop.
Step = Callable[[bool], tuple[dict[str, float], bool, bool]]


def train(
    program: Program,
    session: tf.compat.v1.Session,
    feed: Feed,
    settings: Settings,
    monitors: Sequence[Monitor],
    wants_to_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Trains what is left of the schedule, from where the counters stand.

    Returns whether it was trained to its end: if any rank wants to stop, all do after the step
    that they are in. Every rank runs the same number of steps. Raises AgreedError, on all ranks
    at the same step, when a loss or gradient is not finite.
    """
    done = progress(program, session)
    # The position in the sample order is a function of the steps alone.
    feed.seek(session, done.run * settings.batch)
    run_step = done.run
    for visit in program.visits[done.visit :]:
        visit_done = done.visit_steps if visit.number == done.visit else 0
        if visit_done >= visit.stage.steps:
            continue
        if visit.number != done.visit:
            program.go_to_visit(session, visit.number)
        turns = [
            _step_function(op, session, feed, settings.backward_passes_per_step)
            for op in program.train_ops[visit.stage.name]
        ]
        report = _train_visit(visit, visit_done, run_step, turns, monitors, wants_to_stop)
        if report.stop and not report.is_last:
            return False
        if report.plateau:
            # A checkpoint of now has to say that the visit is over, though steps are left.
            program.go_to_visit(session, visit.number + 1)
        for monitor in monitors:
            monitor.after_stage(report)
        run_step = report.step
        if report.stop:
            return visit is program.visits[-1]
    return True


def _train_visit(
    visit: Visit,
    done: int,
    run_step: int,
    turns: Sequence[Step],
    monitors: Sequence[Monitor],
    wants_to_stop: Callable[[], bool],
) -> Report:
    """Makes the steps that a visit has left, one at least, and returns the last one's report."""
    for monitor in monitors:
        monitor.before_stage(visit, done)
    for step in range(done + 1, visit.stage.steps + 1):
        run_step += 1
        started = time.perf_counter()
        values, plateau, stop = turns[(step - 1) % len(turns)](wants_to_stop())
        seconds = time.perf_counter() - started
        _check_finite(values, visit.stage.name, run_step)
        report = Report(visit, step, run_step, values, seconds, plateau, stop)
        for monitor in monitors:
            monitor.after_step(report)
        if plateau or stop:
            break
    return report


def _step_function(
    train_op: TrainOp, session: tf.compat.v1.Session, feed: Feed, passes: int
) -> Step:
    accumulate = session.make_callable(train_op.accumulate)
    finish = session.make_callable(
        [list(train_op.report.values()), train_op.plateau, train_op.stop, train_op.step],
        [train_op.wish],
    )
    names = list(train_op.report)

    def run(wish: bool) -> tuple[dict[str, float], bool, bool]:
        try:
            for _ in range(passes - 1):
                accumulate()
            values, plateau, stop, _ = finish(float(wish))
        except tf.errors.OpError as error:
            raise feed.error() or error from None
        named = {name: float(value) for name, value in zip(names, values, strict=True)}
        return named, bool(plateau), bool(stop)

    return run


def _check_finite(values: dict[str, float], stage: str, step: int) -> None:
    """The values are reduced over ranks, so all ranks find the same and raise together."""
    wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if wrong:
        raise AgreedError(
            f"step {step}, stage {stage}: {', '.join(wrong)}; training has stopped and the last "
            "checkpoint stands. Lower the learning rate or set the optimizer's clip_norm, and "
            "start over with --fresh"
        )
