"""The trainer: the loop over the schedule's visits and their steps, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.numerics import Finding, Policy, RollBackError, Stop, not_finite
from hvd_gan.engine.program import Feed, Program
from hvd_gan.engine.resuming import progress
from hvd_gan.engine.stages import Visit
from hvd_gan.engine.train_ops import TrainOp


@dataclass(frozen=True)
class Made:
    """What one step gave, the same on all ranks.

    checked: what has to be finite besides the reported `values`. plateau: whether the stage has
    reached its plateau. stop: whether any rank wants to stop.
    """

    values: dict[str, float]
    checked: dict[str, float]
    plateau: bool
    stop: bool


# Makes a step, given whether this rank wants to stop.
Step = Callable[[bool], Made]


@dataclass(frozen=True)
class Around:
    """What happens around the steps."""

    monitors: Sequence[Monitor]
    policy: Policy
    wants_to_stop: Callable[[], bool]


def train(
    program: Program,
    session: tf.compat.v1.Session,
    feed: Feed,
    settings: Settings,
    monitors: Sequence[Monitor],
    policy: Policy | None = None,
    wants_to_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Trains what is left of the schedule, from where the counters stand.

    Returns whether it was trained to its end: if any rank wants to stop, all do after the step
    that they are in. Every rank runs the same number of steps. Raises AgreedError, on all ranks at
    the same step, when a loss or gradient is not finite and the policy (left out: Stop) knows no
    help.
    """
    around = Around(monitors, policy or Stop(settings), wants_to_stop)
    while True:
        try:
            return _train_rest(program, session, feed, settings, around)
        except RollBackError as back:
            for monitor in monitors:
                monitor.rolled_back(back.step)


def _train_rest(
    program: Program,
    session: tf.compat.v1.Session,
    feed: Feed,
    settings: Settings,
    around: Around,
) -> bool:
    done = progress(program, session)
    # The position in the sample order is a function of the steps alone.
    feed.seek(session, (done.run + done.moved_on) * settings.batch)
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
        report = _train_visit(visit, visit_done, run_step, done.moved_on, turns, around)
        if report.stop and not report.is_last:
            return False
        if report.plateau:
            # A checkpoint of now has to say that the visit is over, though steps are left.
            program.go_to_visit(session, visit.number + 1)
        for monitor in around.monitors:
            monitor.after_stage(report)
        run_step = report.step
        if report.stop:
            return not any(later.stage.steps for later in program.visits[visit.number + 1 :])
    return True


def _train_visit(
    visit: Visit,
    done: int,
    run_step: int,
    moved_on: int,
    turns: Sequence[Step],
    around: Around,
) -> Report:
    """Makes the steps that a visit has left, one at least, and returns the last one's report."""
    for monitor in around.monitors:
        monitor.before_stage(visit, done)
    for step in range(done + 1, visit.stage.steps + 1):
        run_step += 1
        started = time.perf_counter()
        made = turns[(step - 1) % len(turns)](around.wants_to_stop())
        seconds = time.perf_counter() - started
        values, plateau = made.values, made.plateau
        wrong = not_finite(values | made.checked)
        if wrong:
            around.policy.failed(Finding(visit.stage.name, run_step, wrong))
            values, plateau = {}, False
        else:
            around.policy.passed(run_step)
        report = Report(
            visit,
            step,
            run_step,
            run_step + moved_on,
            values,
            seconds,
            plateau,
            made.stop,
            skipped=bool(wrong),
        )
        for monitor in around.monitors:
            monitor.after_step(report)
        if plateau or made.stop:
            break
    return report


def _step_function(
    train_op: TrainOp, session: tf.compat.v1.Session, feed: Feed, passes: int
) -> Step:
    accumulate = session.make_callable(train_op.accumulate)
    finish = session.make_callable(
        [
            list(train_op.report.values()),
            list(train_op.checked.values()),
            train_op.plateau,
            train_op.stop,
            train_op.step,
        ],
        [train_op.wish],
    )

    def run(wish: bool) -> Made:
        try:
            for _ in range(passes - 1):
                accumulate()
            report, checked, plateau, stop, _ = finish(float(wish))
        except tf.errors.OpError as error:
            raise feed.error() or error from None
        return Made(
            _named(train_op.report, report),
            _named(train_op.checked, checked),
            bool(plateau),
            bool(stop),
        )

    return run


def _named(names: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}
