"""The GPUs of a host, as CUDA shows them to a rank, and which rank takes which."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
# What people and Slurm write to show no GPU at all.
HIDDEN = ("", "-1", "NoDevFiles")


@dataclass(frozen=True)
class Sight:
    """What a rank sees of GPUs. `gpus` are their UUIDs, in the order in which TensorFlow and CUDA
    number them from 0; `stated` is CUDA_VISIBLE_DEVICES; `there` is how many its host has.
    """

    host: str
    gpus: tuple[str, ...]
    stated: str | None
    there: int


def look(
    host: str,
    seen: int,
    environment: Mapping[str, str] = os.environ,
    devices: Path = Path("/dev"),
) -> Sight:
    """What this rank sees. `seen` is the number of GPUs that TensorFlow sees."""
    names = driver_names() if seen else ()
    if len(names) != seen:
        # The driver does not say which they are. One alone is taken to be this rank's own.
        owner = f"process {os.getpid()} on {host}" if seen == 1 else host
        names = tuple(f"GPU {number} of {owner}" for number in range(seen))
    there = len(list(devices.glob("nvidia[0-9]*")))
    return Sight(host, names, environment.get(VISIBLE), there)


def driver_names() -> tuple[str, ...]:
    """UUIDs of the GPUs, or of the MIG device, that CUDA shows this process, in its order.

    Empty without a driver. The UUID is the only name that all processes have in common: in a Slurm
    task that may use one GPU, that one is number 0, whichever it is.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count, device, name = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        names = []
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
            return ()
        for number in range(count.value):
            # _v2 tells the MIG devices of one GPU apart.
            if cuda.cuDeviceGet(ctypes.byref(device), number) or cuda.cuDeviceGetUuid_v2(
                ctypes.byref(name), device
            ):
                return ()
            names.append(f"GPU-{uuid.UUID(bytes=bytes(name))}")
    except (OSError, AttributeError):
        return ()
    return tuple(names)


def assign(sights: Sequence[Sight]) -> list[int | None]:
    """The number of each rank's GPU among those that it sees; None on a CPU.

    `sights` are those of all ranks, in their order. Each takes the first GPU that it sees and that
    none before it has: where all ranks of a host see all its GPUs, that is the one of its local
    rank; where a launcher has bound a rank to one or to some, it is one of these.
    Raises ValueError, the same on all ranks, if a rank has none left, or if some ranks have GPUs
    and others see none: Horovod adds no tensors up between the two.
    """
    taken: dict[str, int] = {}
    numbers: list[int | None] = []
    for rank, sight in enumerate(sights):
        free = [number for number, name in enumerate(sight.gpus) if name not in taken]
        if sight.gpus and not free:
            raise ValueError(_none_left(rank, sight, [taken[name] for name in sight.gpus]))
        numbers.append(free[0] if free else None)
        if free:
            taken[sight.gpus[free[0]]] = rank
    if taken and None in numbers:
        without = numbers.index(None)
        raise ValueError(
            f"rank {min(taken.values())} computes on a GPU and rank {without} on host "
            f"{sights[without].host} sees none ({_stated(sights[without])}); show GPUs to all "
            f"ranks, or hide them from all with {VISIBLE}=-1"
        )
    return numbers


def unused(sights: Sequence[Sight], built_for_gpus: bool) -> list[str]:
    """A sentence for each host whose ranks see no GPU, though it has some or some are named.

    GPUs that are hidden on purpose are not missed. `built_for_gpus` is TensorFlow's word.
    """
    sentences = {}
    for sight in sights:
        named = sight.stated is not None
        if sight.gpus or sight.stated in HIDDEN or not (sight.there or named):
            continue
        if not sight.there:
            what = "no NVIDIA GPU"
            cure = f"unset {VISIBLE}, or, in a container, show it GPUs (docker run --gpus all)"
        else:
            what = f"{sight.there} NVIDIA GPU" + ("s" if sight.there > 1 else "")
            cure = (
                "python -m hvd_gan.doctor tells why"
                if built_for_gpus
                else "this TensorFlow is for CPUs, and GPU=1 make setup brings the other"
            )
        sentences[sight.host] = (
            f"host {sight.host} has {what} ({_stated(sight)}) and TensorFlow sees none, so it "
            f"computes on CPUs; {cure}; {VISIBLE}=-1 if that is meant"
        )
    return list(sentences.values())


def _none_left(rank: int, sight: Sight, users: Sequence[int]) -> str:
    number = len(sight.gpus)
    by = f"rank{'s' if number > 1 else ''} {', '.join(map(str, sorted(users)))}"
    cure = (
        f"CUDA shows a process one MIG device at a time, so give each rank a {VISIBLE} of its own"
        if (sight.stated or "").startswith("MIG")
        else f"start fewer ranks on this host, or show it more GPUs by {VISIBLE}"
    )
    return (
        f"rank {rank} on host {sight.host} has no GPU: it sees {number} ({_stated(sight)}), taken "
        f"by {by}; {cure}"
    )


def _stated(sight: Sight) -> str:
    return f"{VISIBLE} is {'not set' if sight.stated is None else repr(sight.stated)}"
