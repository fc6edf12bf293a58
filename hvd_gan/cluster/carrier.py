"""Carries Python objects between ranks: over MPI where Horovod runs on it, else over Horovod.

Objects are pickled on the way. Both ends are ranks of one job, started by one person; nothing that
comes from a file or from outside passes here unparsed.
"""

from __future__ import annotations

import pickle
from typing import Any, Protocol

import numpy as np

from hvd_gan.cluster.device import usable_cores


class Carrier(Protocol):
    """Collectives over all ranks: every rank has to make the same call."""

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value in the order of the ranks, on every rank."""


class MpiCarrier:
    """mpi4py, on the MPI that Horovod initialised and finalises."""

    def __init__(self) -> None:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        from mpi4py import MPI

        # A communicator of our own: Horovod's background thread talks on its own at the same time.
        self._ranks = MPI.COMM_WORLD.Dup()

    def broadcast(self, value: Any) -> Any:
        return self._ranks.bcast(value, root=0)

    def gather(self, value: Any) -> list[Any]:
        return self._ranks.allgather(value)


class HorovodCarrier:
    """Horovod's allgather of bytes, for Gloo and for a single process.

    In a graph of its own: Horovod's object collectives need eager mode or add nodes at each call,
    and their callers stand inside the training graph.
    """

    def __init__(self) -> None:
        import horovod.tensorflow as hvd
        import tensorflow as tf

        graph = tf.Graph()
        with graph.as_default(), tf.device("CPU:0"):
            self._bytes = tf.compat.v1.placeholder(tf.uint8, [None], "bytes")
            self._lengths = hvd.allgather(tf.shape(self._bytes), name="carrier_lengths")
            self._all = hvd.allgather(self._bytes, name="carrier_bytes")
        # The process's first session: the training's must not share its threads, and what it leaves
        # them of the cores is this rank's part.
        config = tf.compat.v1.ConfigProto(
            device_count={"GPU": 0},
            intra_op_parallelism_threads=max(1, len(usable_cores()) // hvd.local_size()),
            inter_op_parallelism_threads=1,
            use_per_session_threads=True,
        )
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def broadcast(self, value: Any) -> Any:
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        payload = np.frombuffer(pickle.dumps(value), np.uint8)
        lengths, everything = self._session.run((self._lengths, self._all), {self._bytes: payload})
        parts = np.split(everything, np.cumsum(lengths)[:-1])
        return [pickle.loads(part.tobytes()) for part in parts]
