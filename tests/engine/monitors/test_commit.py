"""What is kept in memory is never a stage whose end is still to come."""

from __future__ import annotations

from types import SimpleNamespace

from hvd_gan.engine.monitors.commit import Commit


def step(number: int, last: bool = False) -> SimpleNamespace:
    return SimpleNamespace(step=number, is_last=last)


def test_steps_are_committed_as_asked_and_the_last_one_when_the_stage_has_ended():
    kept: list[int] = []
    now = [0]
    monitor = Commit(lambda: kept.append(now[0]), every=5, saved_every=4)
    for number in range(1, 11):
        now[0] = number
        monitor.after_step(step(number, last=number == 10))
    assert kept == [4, 5, 8]
    monitor.after_stage(step(10, last=True))
    assert kept == [4, 5, 8, 10]
