"""Writes the run's numbers on rank 0: a line of JSON, and scalars for TensorBoard."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.throughput import Interval
from hvd_gan.engine.writing import append, write_whole, writing


class MetricsFile:
    """`metrics.jsonl`: one object a line, each with the run's `step`."""

    def __init__(self, path: Path, resumed_at: int) -> None:
        """Drops the lines that a resumed run is going to write again."""
        self._path = path
        self._unwritten = b""
        self.go_back(resumed_at)

    def go_back(self, step: int) -> None:
        """Drops the lines that stand after a step. Raises WriteError."""
        written = self._path.read_bytes() if self._path.exists() else b""
        lines = (written + self._unwritten).decode(errors="replace").splitlines()
        kept = [line for line in lines if 0 <= _step(line) <= step]
        if kept or written:
            write_whole(self._path, "".join(f"{line}\n" for line in kept).encode())
        self._unwritten = b""

    def write(self, step: int, values: Mapping[str, float | str]) -> None:
        """Appends one line. Raises WriteError, and then tries again with the next one."""
        rounded = {
            key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in values.items()
        }
        self._unwritten += (json.dumps({"step": step, **rounded}) + "\n").encode()
        append(self._path, self._unwritten)
        self._unwritten = b""


def _step(line: str) -> int:
    """The step of a line; -1 of one that a killed run did not finish, or that is none of ours."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return -1


class Events:
    """TensorBoard's event files, the run's one writer.

    Written at once, not by a thread as TensorFlow's own writer does: so a failure is met where it
    happens. After one there is a new file, since nobody reads on behind half a record.
    """

    def __init__(self, folder: Path, resumed_at: int) -> None:
        """Tells TensorBoard to drop what a resumed run is going to write again."""
        self._folder = folder
        self._file: tf.io.TFRecordWriter | None = None
        self.go_back(resumed_at)

    def go_back(self, step: int) -> None:
        """Tells TensorBoard to drop what stands after a step. Raises WriteError."""
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write(tf.compat.v1.Event(step=step + 1, session_log=start))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars by tag."""
        entries = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()
        ]
        self._write(tf.compat.v1.Event(step=step, summary=tf.compat.v1.Summary(value=entries)))

    def image(self, step: int, tag: str, png: bytes, shape: tuple[int, ...]) -> None:
        """Writes an encoded PNG of shape [height, width, channels]."""
        height, width, channels = shape
        picture = tf.compat.v1.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=png
        )
        entry = tf.compat.v1.Summary.Value(tag=tag, image=picture)
        self._write(tf.compat.v1.Event(step=step, summary=tf.compat.v1.Summary(value=[entry])))

    def _write(self, event: tf.compat.v1.Event) -> None:
        event.wall_time = time.time()
        with writing("TensorBoard's events", self._folder, tf.errors.OpError):
            file, self._file = self._file or self._open(), None
            file.write(event.SerializeToString())
            file.flush()
            self._file = file

    def _open(self) -> tf.io.TFRecordWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard knows its files by the first part, and reads them in the order of their names.
        name = f"events.out.tfevents.{time.time_ns() / 1e9:017.6f}.{socket.gethostname()}"
        file = tf.io.TFRecordWriter(str(self._folder / name))
        file.write(tf.compat.v1.Event(file_version="brain.Event:2").SerializeToString())
        return file


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
