"""What is written of a run's numbers."""

from __future__ import annotations

import json

import pytest

from hvd_gan.engine.monitors.metrics import MetricsFile
from hvd_gan.engine.monitors.monitor import Report
from hvd_gan.engine.monitors.progress import clock, losses
from hvd_gan.engine.monitors.throughput import Interval
from hvd_gan.engine.stages import Stage, Visit


def test_a_resumed_run_drops_the_lines_that_it_writes_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, resumed_at=0)
    for step in range(1, 6):
        first.write(step, {"loss": step / 3})
    with path.open("a") as file:
        file.write('{"step": 6, "lo')  # Killed in the middle of a line.
    second = MetricsFile(path, resumed_at=3)
    second.write(4, {"loss": 7.0})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["loss"] == 7.0


def test_an_interval_has_means_and_the_speed_over_all_ranks():
    interval, visit = Interval(batch=12), Visit(0, Stage("s", 9, 9, ()), "s")
    for step, (value, seconds) in enumerate([(1.0, 0.5), (3.0, 1.5)], 1):
        interval.add(Report(visit, step, step, {"loss/a": value}, seconds))
    assert interval.take() == {"loss/a": 2.0, "images_per_second": 12.0}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (61.4, "1:01"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text


def test_only_losses_are_shown():
    assert losses({"loss/a": 0.12345, "gradient_norm/x": 1.0, "loss/b": 2}) == "a 0.1235 b 2"
