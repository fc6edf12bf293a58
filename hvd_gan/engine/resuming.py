"""Where a run stands, and whether a schedule may go on from there."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.program import Program


@dataclass(frozen=True)
class Progress:
    """Where a run stands: steps in all, the visit of the schedule, and steps of that visit.

    moved_on: by how many steps the sample order is ahead of `run`, after rollbacks.
    """

    run: int
    visit: int
    visit_steps: int
    moved_on: int = 0


def progress(program: Program, session: tf.compat.v1.Session) -> Progress:
    """Reads the counters."""
    counters = program.counters
    values = session.run((counters.run, counters.visit, counters.visit_steps, counters.moved_on))
    return Progress(*map(int, values))


def check_schedule(old: list[list], program: Program, done: Progress) -> None:
    """Raises ConfigError if the schedule differs from `old` in what has been trained already.

    Stages that have not begun may change; the one that training stands in may get other steps, not
    fewer than it has done.
    """
    new = program.schedule()
    if old[: done.visit] != new[: done.visit]:
        before, now = next(
            pair for pair in zip(old, [*new, None], strict=False) if pair[0] != pair[1]
        )
        raise ConfigError(
            f"stages: {before[0]} has been trained for {before[1]} steps, and now the schedule has "
            f"{f'{now[0]} with {now[1]}' if now else 'nothing'} there; start over with --fresh"
        )
    if done.visit < len(old):
        name, _ = old[done.visit]
        steps = new[done.visit][1] if done.visit < len(new) and new[done.visit][0] == name else 0
        if steps < done.visit_steps:
            raise ConfigError(
                f"stages.{name}.steps: {done.visit_steps} are done already, {steps} are now asked "
                "for; give it as many at least, or start over with --fresh"
            )
