"""A schedule may change where nothing has been trained yet, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.resuming import Progress, check_schedule

OLD = [["completion", 5], ["discriminator", 3], ["joint", 4]]
# Two steps into the second stage.
DONE = Progress(run=7, visit=1, visit_steps=2)


def check(*new, done: Progress = DONE) -> None:
    program = SimpleNamespace(schedule=lambda: [list(visit) for visit in new])
    check_schedule(OLD, program, done)


@pytest.mark.parametrize(
    "new",
    [
        (("completion", 5), ("discriminator", 3), ("joint", 4)),
        (("completion", 5), ("discriminator", 2), ("joint", 40)),
        (("completion", 5), ("discriminator", 9)),
        (("completion", 5), ("discriminator", 3), ("polish", 1), ("joint", 4)),
    ],
)
def test_what_lies_ahead_may_change(new):
    check(*new)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([("completion", 6), ("discriminator", 3)], "completion has been trained for 5 steps"),
        ([("completion", 5)], "stages.discriminator.steps: 2 are done already, 0 are now asked"),
        ([("completion", 5), ("discriminator", 1)], "2 are done already, 1 are now asked for"),
        ([("completion", 5), ("joint", 4)], "stages.discriminator.steps: 2 are done already"),
        ([], "completion has been trained for 5 steps, and now the schedule has nothing there"),
    ],
)
def test_what_lies_behind_may_not(new, expected):
    with pytest.raises(ConfigError, match=expected):
        check(*new)


def test_after_the_end_by_a_plateau_the_schedule_may_go_on():
    check(*OLD, ("polish", 3), done=Progress(run=10, visit=3, visit_steps=0))
