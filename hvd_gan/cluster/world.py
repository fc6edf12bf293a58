"""The world: this process among the ranks, and the collective verbs that the rest needs."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from hvd_gan.cluster.carrier import Carrier, HorovodCarrier, MpiCarrier
from hvd_gan.cluster.device import Device, quota, share_of_cores, usable_cores
from hvd_gan.cluster.gpus import assign, look, unused
from hvd_gan.cluster.hub import Hub
from hvd_gan.cluster.launcher import check_not_alone, stated_size
from hvd_gan.cluster.lifeline import Lifeline
from hvd_gan.cluster.network import NIC, check_nic, check_own_name
from hvd_gan.cluster.voice import say
from hvd_gan.cluster.wire import connect

Result = TypeVar("Result")


class AgreedError(Exception):
    """An error that every rank raises at the same point, so that one rank may report it."""


@dataclass(frozen=True)
class World:
    """One rank's view of the job. Made once, by `start`; nobody else calls `hvd.init`.

    `refusal` says why this job cannot be trained as it was launched; it is the same on all ranks.
    """

    rank: int
    size: int
    local_rank: int
    host: str
    device: Device
    members: tuple[str, ...]
    carrier: Carrier
    lifeline: Lifeline
    refusal: str | None = None

    @property
    def is_root(self) -> bool:
        """True on the one rank that writes files and speaks to the person."""
        return self.rank == 0

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} on host {self.host}"

    def check_launch(self) -> None:
        """Raises AgreedError if the job cannot be trained as it was launched."""
        if self.refusal:
            raise AgreedError(self.refusal)

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value. A collective: every rank calls it."""
        received = self.carrier.broadcast(value)
        self.beat()
        return received

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values, in their order. A collective: every rank calls it."""
        gathered = self.carrier.gather(value)
        self.beat()
        return gathered

    def beat(self, at: str | None = None) -> None:
        """Says that this rank has got on, and where it is: "step 12 of stage joint".

        To be called in everything that lasts: without a beat of any rank for the stall timeout,
        the job counts as stuck and is ended.
        """
        self.lifeline.beat(at)

    def agree(self, flag: bool) -> bool:
        """True if the flag is true on any rank. A collective: every rank calls it."""
        return any(self.gather(bool(flag)))

    def on_root(self, function: Callable[[], Result]) -> Result:
        """Rank 0's result of `function`, on every rank.

        A ValueError or OSError becomes an AgreedError on every rank: all of them reach the
        broadcast, whether the function succeeds or not.
        """
        result, error = _attempt(function) if self.is_root else (None, None)
        result, error = self.broadcast((result, error))
        if error is not None:
            raise AgreedError(error)
        return cast(Result, result)

    def on_all(
        self,
        function: Callable[[], Result],
        mistakes: tuple[type[Exception], ...] = (ValueError, OSError),
    ) -> Result:
        """Each rank's own result, if all succeed; else an AgreedError with the first failure.

        Only `mistakes` are gathered; anything else ends the job, with its traceback.
        """
        result, error = _attempt(function, mistakes)
        errors = [f"{error} ({self})" if error and self.size > 1 else error]
        failed = [error for [error] in self.gather(errors) if error is not None]
        if failed:
            raise AgreedError(failed[0])
        return cast(Result, result)


def start(stall_timeout: float, elastic: bool = False) -> World:
    """Initialises Horovod and finds this rank's place. Call once, after TensorFlow's import.

    stall_timeout: seconds without any rank's progress after which the job is ended.
    elastic: Horovod's driver says who belongs to the job. Called again, when a rank was lost or has
        come, it starts Horovod anew; no rank then depends on the life of another.
    Raises LaunchError if the launcher and Horovod disagree, or the network interface or the host's
    own name is missing.
    """
    import tensorflow as tf

    gpus = len(tf.config.list_physical_devices("GPU"))
    _set_environment(gpus, stall_timeout, elastic)

    import horovod.tensorflow as hvd

    if elastic:
        hvd.shutdown()
    hvd.init()
    if not elastic:
        # What the driver has told a process at its start need not hold any more.
        check_not_alone(hvd.size())
    carrier: Carrier = MpiCarrier() if hvd.mpi_enabled() else HorovodCarrier()
    host, cores = socket.gethostname(), usable_cores()
    # Every rank reaches this gather: nothing above it depends on the rank.
    members = carrier.gather((cores, look(host, gpus)))
    sights = [sight for _, sight in members]
    hosts = tuple(sight.host for sight in sights)
    numbers, refusal = _attempt(lambda: assign(sights))
    neighbours = [theirs for theirs, sight in members if sight.host == host]
    gpu = numbers[hvd.rank()] if numbers else None
    device = Device(gpu, share_of_cores(cores, neighbours, quota()))
    for sentence in unused(sights, tf.test.is_built_with_cuda()) if hvd.rank() == 0 else ():
        say(f"warning: {sentence}")
    lifeline = (
        Lifeline(hvd.rank(), hosts[0], stall_timeout, None, None)
        if elastic
        else _tie(carrier, hvd.rank(), hosts, stall_timeout)
    )
    place = (hvd.rank(), hvd.size(), hvd.local_rank(), host)
    return World(*place, device, hosts, carrier, lifeline, refusal)


def _set_environment(gpus: int, stall_timeout: float, elastic: bool) -> None:
    """What Horovod and MPI read when they start; what a user has set stays."""
    check_nic()
    if not gpus:
        # With as many ranks as cores, busy waiting in MPI takes the cores from the compute.
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if not elastic:
        # Until all ranks have come; afterwards Gloo only waits for ranks that are gone.
        os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(math.ceil(stall_timeout)))
    if stated_size() == (1, ""):
        # No launcher: Gloo needs no MPI daemon to be alone.
        os.environ.setdefault("HOROVOD_CONTROLLER", "gloo")
        os.environ.setdefault("HOROVOD_CPU_OPERATIONS", "gloo")
    if os.environ.get("HOROVOD_CONTROLLER") == "gloo":
        check_own_name()


def _tie(carrier: Carrier, rank: int, hosts: Sequence[str], stall_timeout: float) -> Lifeline:
    """Ties this rank to rank 0's hub. A collective: every rank comes here from `start`.

    A rank that cannot reach the hub trains all the same, and rank 0 says what is lost by that.
    """
    hub = Hub(hosts, stall_timeout, os.environ.get(NIC)) if rank == 0 else None
    invitation = carrier.broadcast(hub.invitation if hub else None)
    wire, failure = None, None
    here = ["127.0.0.1"] if hosts[rank] == hosts[0] else []
    try:
        wire = connect(invitation, rank, [*here, *invitation.addresses])
    except OSError as error:
        failure = str(error)
    for other, finding in enumerate(carrier.gather(failure)):
        if finding is not None and rank == 0:
            say(
                f"warning: rank {other} on host {hosts[other]} cannot reach rank 0 over TCP, so "
                f"its faults may be noticed late; name a network interface by {NIC} ({finding})"
            )
    return Lifeline(rank, hosts[0], stall_timeout, wire, hub)


def _attempt(
    function: Callable[[], Result],
    mistakes: tuple[type[Exception], ...] = (ValueError, OSError),
) -> tuple[Result | None, str | None]:
    try:
        return function(), None
    except mistakes as error:
        return None, str(error)
