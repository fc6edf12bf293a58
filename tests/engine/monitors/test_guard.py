"""What cannot be written stops the job or is told, as the person has chosen."""

from __future__ import annotations

import pytest

from hvd_gan.engine.monitors.guard import Guard, Guarded
from hvd_gan.engine.monitors.monitor import Monitor
from hvd_gan.engine.writing import WriteError


class Failing(Monitor):
    def after_step(self, report) -> None:
        raise WriteError(f"file {report} could not be written in /run: No space left on device")


def guard(keep_going: bool, said: list) -> Guard:
    return Guard(
        keep_going,
        said.append,
        lambda: "the last good checkpoint, of step 4, stands intact",
        lambda: "Do this",
    )


def test_by_default_the_job_stops_and_the_message_says_what_stands_and_what_to_do():
    with pytest.raises(WriteError) as raised:
        Guarded(Failing(), guard(False, [])).after_step("a")
    assert str(raised.value) == (
        "file a could not be written in /run: No space left on device; the last "
        "good checkpoint, of step 4, stands intact. Do this"
    )


def test_where_a_job_keeps_going_each_failure_is_told_once_a_stage():
    said = []
    monitor = Guarded(Failing(), guard(True, said))
    for report in "aab":
        monitor.after_step(report)
    assert [line.split()[2] for line in said] == ["a", "b"]
    assert "No space left" in said[0] and "tries again" in said[0] and "step 4" in said[0]
    monitor.before_stage(None, 0)
    monitor.after_step("a")
    assert len(said) == 3


def test_what_has_to_be_written_stops_it_all_the_same():
    with pytest.raises(WriteError, match="Do this"), guard(True, [])(has_to=True):
        Failing().after_step("a")


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), guard(True, [])():
        raise ZeroDivisionError
