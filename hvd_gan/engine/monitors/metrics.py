"""Writes the run's numbers on rank 0: a line of JSON, and scalars for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.throughput import Interval


class MetricsFile:
    """`metrics.jsonl`: one object a line, each with the run's `step`."""

    def __init__(self, path: Path, resumed_at: int) -> None:
        """Drops the lines that a resumed run is going to write again."""
        self._path = path
        self.go_back(resumed_at)
        self._file = path.open("a", buffering=1)

    def go_back(self, step: int) -> None:
        """Drops the lines that stand after a step."""
        if self._path.exists():
            lines = self._path.read_text().splitlines()
            kept = [line for line in lines if 0 <= _step(line) <= step]
            self._path.write_text("".join(f"{line}\n" for line in kept))

    def write(self, step: int, values: Mapping[str, float | str]) -> None:
        """Appends one line."""
        rounded = {
            key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in values.items()
        }
        self._file.write(json.dumps({"step": step, **rounded}) + "\n")


def _step(line: str) -> int:
    """The step of a line; -1 of one that a killed run did not finish."""
    try:
        return json.loads(line)["step"]
    except json.JSONDecodeError:
        return -1


class Events:
    """TensorBoard's event files, the run's one writer."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        """Tells TensorBoard to drop what a resumed run is going to write again."""
        with tf.Graph().as_default():
            self._writer = tf.compat.v1.summary.FileWriter(str(folder))
        self.go_back(resumed_at)

    def go_back(self, step: int) -> None:
        """Tells TensorBoard to drop what stands after a step."""
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._writer.add_session_log(start, global_step=step + 1)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars by tag."""
        entries = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()
        ]
        self._writer.add_summary(tf.compat.v1.Summary(value=entries), step)
        self._writer.flush()

    def image(self, step: int, tag: str, png: bytes, shape: tuple[int, ...]) -> None:
        """Writes an encoded PNG of shape [height, width, channels]."""
        height, width, channels = shape
        picture = tf.compat.v1.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=png
        )
        entry = tf.compat.v1.Summary.Value(tag=tag, image=picture)
        self._writer.add_summary(tf.compat.v1.Summary(value=[entry]), step)
        self._writer.flush()


class Metrics(Monitor):
    """The means of every `every` steps, to the file and to TensorBoard."""

    def __init__(self, file: MetricsFile, events: Events, batch: int, every: int) -> None:
        self._file = file
        self._events = events
        self._interval = Interval(batch)
        self._every = every

    def rolled_back(self, step: int) -> None:
        self._interval.forget()
        self._file.go_back(step)
        self._events.go_back(step)

    def after_step(self, report: Report) -> None:
        self._interval.add(report)
        if report.step % self._every == 0 or report.is_last:
            values = self._interval.take()
            stage = report.visit.label
            self._file.write(
                report.step, {"stage": stage, "stage_step": report.visit_step, **values}
            )
            self._events.scalars(
                report.step, {f"{stage}/{name}": float(np.float32(v)) for name, v in values.items()}
            )
