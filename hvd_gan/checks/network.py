"""How fast ranks add tensors up: Horovod's allreduce over sizes, and raw MPI's beside it."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hvd_gan.checks.findings import Finding, Row, ok, warning
from hvd_gan.checks.probe import Report
from hvd_gan.cluster.world import World

SIZES = (4, 4 * 2**10, 256 * 2**10, 4 * 2**20, 64 * 2**20)
NAMES = ("4 B", "4 kB", "256 kB", "4 MB", "64 MB")
WARM_UP = 2
# GB/s: what a gigabit network carries is 0.12, and a training step moves megabytes.
SLOW = 0.1
SLOW_LATENCY_MS = 20.0


def check_network(world: World, report: Report) -> Finding:
    """Measures; the finding has a row for each size. A collective, as are all below."""
    rows = world.broadcast(_measure(world, report))
    return judge(rows, len(set(world.members)))


def judge(rows: list[Row], hosts: int) -> Finding:
    """Whether allreduce is fast enough to train with. Bandwidth is size over time."""
    small, large = rows[0], rows[-1]
    speed, latency = large["GB/s"], small["ms"]
    what = f"{large['size']} at {speed:.2g} GB/s, {small['size']} in {latency:.2g} ms"
    what += "; raw MPI is not there under Gloo" if large["MPI GB/s"] is None else ""
    if speed >= SLOW and latency <= SLOW_LATENCY_MS:
        return ok("network", what, rows)
    cure = "start fewer ranks here, or end what else runs: they wait for cores"
    if hosts > 1:
        cure = "name the fast network with --nic; doctor --hosts a:4,b:4 lists them"
    return replace(warning("network", f"slow: {what}", cure), rows=tuple(rows))


def _measure(world: World, report: Report) -> list[Row]:
    import horovod.tensorflow as hvd

    # Whether Horovod runs on MPI is the same on all ranks.
    raw = _mpi_allreduce() if hvd.mpi_enabled() else None
    reduce_all = _horovod_allreduce(world)
    rows = []
    for name, size in zip(NAMES, SIZES, strict=True):
        report(phase=f"adding up {name} over all ranks")
        through = _milliseconds(reduce_all[size], size)
        beside = _milliseconds(raw[size], size) if raw else None
        rows.append(
            {
                "size": name,
                "ms": through,
                "GB/s": _gigabytes(size, through),
                "MPI ms": beside,
                "MPI GB/s": None if beside is None else _gigabytes(size, beside),
            }
        )
    return rows


def _horovod_allreduce(world: World) -> dict[int, Callable[[], Any]]:
    """For each size, a function that adds such a tensor up on the device that training uses."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    from hvd_gan.config import Settings
    from hvd_gan.engine.session import session_config

    graph = tf.Graph()
    with graph.as_default():
        ones = {size: tf.compat.v1.get_variable(f"of_{size}", [size // 4]) for size in SIZES}
        sums = {
            size: hvd.allreduce(one, op=hvd.Sum, name=f"doctor_{size}").op
            for size, one in ones.items()
        }
        initialize = tf.compat.v1.global_variables_initializer()
    session = tf.compat.v1.Session(graph=graph, config=session_config(world.device, Settings()))
    session.run(initialize)
    return {size: session.make_callable(operation) for size, operation in sums.items()}


def _mpi_allreduce() -> dict[int, Callable[[], Any]]:
    from mpi4py import MPI

    # Of its own: Horovod's background thread uses another at the same time.
    ranks = MPI.COMM_WORLD.Dup()
    ones = {size: np.ones(size // 4, np.float32) for size in SIZES}
    return {
        size: functools.partial(ranks.Allreduce, one, np.empty_like(one))
        for size, one in ones.items()
    }


def _milliseconds(action: Callable[[], Any], size: int) -> float:
    """The median over repetitions; as many on each rank, so that all come to the same count."""
    for _ in range(WARM_UP):
        action()
    times = []
    for _ in range(5 if size > 2**22 else 20):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def _gigabytes(size: int, milliseconds: float) -> float:
    return size / milliseconds / 1e6
