"""What is written of a run's numbers."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from hvd_gan.engine.monitors.metrics import Events, MetricsFile
from hvd_gan.engine.monitors.monitor import Report
from hvd_gan.engine.monitors.progress import clock, losses
from hvd_gan.engine.monitors.throughput import Interval
from hvd_gan.engine.stages import Stage, Visit
from hvd_gan.engine.writing import WriteError
from tests.disks import small_disk


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


def test_lines_that_are_no_lines_of_ours_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = b'{"step": 1}\n'
    path.write_bytes(b'null\n{}\n7\n{"step": "x"}\n\xff\xfe\n' + good)
    MetricsFile(path, resumed_at=3)
    assert path.read_bytes() == good


def test_lines_that_a_full_disk_refused_are_written_once_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk", "8k") as disk:
        file = MetricsFile(disk / "metrics.jsonl", resumed_at=0)
        file.write(1, {"loss": 1.0})
        (disk / "filler").write_bytes(b"x" * 4096)
        step = 1
        with pytest.raises(WriteError, match=r"metrics\.jsonl could not .*: No space left"):
            while step < 500:
                step += 1
                file.write(step, {"loss": 1.0})
        (disk / "filler").unlink()
        file.write(step + 1, {"loss": 1.0})
        lines = [json.loads(line) for line in (disk / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, step + 2))


def events_in(path) -> list:
    """TensorFlow's own reader, up to where a file has been cut."""
    found = []
    try:
        for record in tf.compat.v1.io.tf_record_iterator(str(path)):
            found.append(tf.compat.v1.Event.FromString(record))
    except tf.errors.DataLossError:
        pass
    return found


def test_tensorboard_finds_scalars_and_where_a_run_was_resumed(tmp_path):
    Events(tmp_path / "events", resumed_at=7).scalars(8, {"a": 0.5})
    [path] = (tmp_path / "events").iterdir()
    assert path.name.startswith("events.out.tfevents.")
    version, start, scalar = events_in(path)
    assert version.file_version == "brain.Event:2"
    assert start.session_log.status == tf.compat.v1.SessionLog.START and start.step == 8
    assert scalar.step == 8 and scalar.summary.value[0].simple_value == 0.5
    assert scalar.wall_time > 1e9


def test_events_go_on_in_a_new_file_after_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", "32k") as disk:
        events = Events(disk, resumed_at=0)
        with pytest.raises(WriteError, match=r"TensorBoard's events could not .*: No space left"):
            for step in range(1, 99):
                events.image(step, "picture", b"x" * 4000, (1, 1, 3))
        whole, *_ = sorted(disk.iterdir())
        kept = max(event.step for event in events_in(whole))
        assert kept > 3
        whole.unlink()
        events.scalars(99, {"a": 0.5})
        [after] = sorted(disk.glob("events*"))
        assert events_in(after)[-1].step == 99


def test_an_interval_has_means_and_the_speed_over_all_ranks():
    interval, visit = Interval(batch=12), Visit(0, Stage("s", 9, 9, ()), "s")
    for step, (value, seconds) in enumerate([(1.0, 0.5), (3.0, 1.5)], 1):
        interval.add(Report(visit, step, step, step, {"loss/a": value}, seconds))
    assert interval.take() == {"loss/a": 2.0, "images_per_second": 12.0}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (61.4, "1:01"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text


def test_only_losses_are_shown():
    assert losses({"loss/a": 0.12345, "gradient_norm/x": 1.0, "loss/b": 2}) == "a 0.1235 b 2"
