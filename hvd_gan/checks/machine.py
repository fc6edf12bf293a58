"""Judges a machine: cores, memory, shared memory, limits, folders, its name and its clock."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hvd_gan.checks.findings import Finding, error, note, ok, warning
from hvd_gan.checks.nics import check_nics
from hvd_gan.cluster.device import share_of_cores

Facts = Mapping[str, Any]

GIB = 2**30
# Docker gives 64 MB unless told. Open MPI and NCCL keep some 32 MB for each rank there.
SHM_BASE, SHM_PER_RANK = 256 * 2**20, 64 * 2**20
# A socket for each other rank, the data's files, checkpoints, TensorFlow's own.
OPEN_FILES = 1024
MEMORY_PER_RANK = 1.5 * GIB
TMP_FREE = GIB
# A Unix socket's path has at most 108 characters, of which a name in a session folder takes some.
# Open MPI 5.0 worked with 150; older ones and other programs may not.
TMPDIR_LENGTH = 80
CLOCK_TOLERANCE = 3600.0


def check_machine(facts: Facts, ranks: int = 1) -> list[Finding]:
    """Findings about the machine of `survey()`, where `ranks` run or will run; not of its cores."""
    return [
        *_load(facts),
        _memory(facts, ranks),
        _shared_memory(facts, ranks),
        _open_files(facts),
        _locked_memory(facts),
        *_temporary(facts),
        *_working_folder(facts),
        check_nics(facts),
        _hostname(facts),
        _clock(facts),
    ]


def usable_cores(facts: Facts) -> float:
    """The cores that a process on this machine may use: its own, or a container's share of them."""
    return min(facts["cores"], _quota(facts))


def _load(facts: Facts) -> Iterator[Finding]:
    load = facts["load"]
    if load > facts["all_cores"]:
        yield note("load", f"{load:.1f} on {facts['all_cores']} cores", "end what else runs here")


def check_cores(facts: Facts, ranks: Sequence[Collection[int]]) -> Finding:
    """Whether each rank on a host has a core; `ranks` are the cores that each of them may use."""
    limit = _quota(facts)
    together = set[int]().union(*ranks)
    cores, threads = min(len(together), limit), _threads(ranks, limit)
    bound = f" of {facts['all_cores']}" if cores < facts["all_cores"] else ""
    quota = ", a container's quota" if cores < len(together) else ""
    what = f"{cores:g}{bound} usable{quota}; {_plural(threads, 'thread')} for each of " + (
        f"{len(ranks)} ranks" if len(ranks) > 1 else "1 rank"
    )
    if cores < len(ranks) and not facts["gpus"]["names"]:
        fitting = _plural(max(1, math.floor(cores)), "rank")
        return warning("cores", f"{what}, which wait for one another", f"start {fitting} here")
    return ok("cores", what)


def check_binding(facts: Facts, ranks: Sequence[Collection[int]]) -> Iterator[Finding]:
    """Whether a launcher has bound ranks to fewer cores than would be theirs without that.

    Ranks with the same cores are not bound: the container, or the job, has no others.
    """
    together = set[int]().union(*ranks)
    fair = min(facts["all_cores"], _quota(facts)) / len(ranks)
    bound = len(together) == 1 if len(ranks) == 1 else any(set(own) != together for own in ranks)
    threads = _threads(ranks, _quota(facts))
    if bound and threads < math.floor(fair):
        detail = f"{_plural(threads, 'core')} for a rank, of {facts['all_cores']} in the machine"
        cure = "mpirun --bind-to none, or srun --cpus-per-task=N, if all are the job's"
        yield note("binding", detail, cure)


def _threads(ranks: Sequence[Collection[int]], limit: float) -> int:
    """The fewest threads that any of the ranks on a host computes with."""
    return min(share_of_cores(own, ranks, limit) for own in ranks)


def _quota(facts: Facts) -> float:
    return facts["quota"] if facts["quota"] > 0 else math.inf


def _memory(facts: Facts, ranks: int) -> Finding:
    free, total = facts["memory"]["free"], facts["memory"]["total"]
    what = f"{_size(free)} of {_size(total)} free"
    if free < MEMORY_PER_RANK * ranks:
        return warning(
            "memory",
            f"{what}; a rank takes {_size(MEMORY_PER_RANK)} and more",
            "end what else runs here, start fewer ranks, or raise the container's limit",
        )
    return ok("memory", what)


def _shared_memory(facts: Facts, ranks: int) -> Finding:
    shm = facts["shm"]
    cure = "start the container with --shm-size=8g; elsewhere mount -o remount,size=8g /dev/shm"
    if "problem" in shm:
        return error("shared memory", f"/dev/shm: {shm['problem']}", cure)
    what = f"{_size(shm['free'])} of {_size(shm['size'])} free in /dev/shm"
    if shm["free"] < SHM_BASE + SHM_PER_RANK * ranks:
        return warning("shared memory", f"{what}: too little for MPI and NCCL", cure)
    return ok("shared memory", what)


def _open_files(facts: Facts) -> Finding:
    soft, hard = facts["open_files"]
    if soft < 0:
        return ok("open files", "no limit")
    if soft < OPEN_FILES:
        raised = min(4096, hard) if hard > 0 else 4096
        cure = f"ulimit -n {raised}, in the job script or the shell that starts it"
        if raised < OPEN_FILES:
            cure = f"ask for a higher limit than {hard}: nofile in /etc/security/limits.conf"
        return warning("open files", f"{soft} at most in a process; many ranks need more", cure)
    return ok("open files", f"{soft} at most in a process")


def _locked_memory(facts: Facts) -> Finding:
    limit = facts["locked_memory"]
    if limit < 0:
        return ok("locked memory", "no limit")
    what = f"{_size(limit)} at most"
    if facts["infiniband"]:
        devices = ", ".join(facts["infiniband"])
        cure = "ulimit -l unlimited: memlock in /etc/security/limits.conf, or docker --ulimit"
        return warning("locked memory", f"{what}; {devices} wants more", cure)
    return ok("locked memory", f"{what}, enough without InfiniBand")


def _temporary(facts: Facts) -> Iterator[Finding]:
    tmp = facts["tmp"]
    path = tmp["path"]
    if "problem" in tmp:
        yield error("temporary files", f"{path}: {tmp['problem']}", "set TMPDIR to a local folder")
        return
    what = f"{_size(tmp['free'])} free in {path}"
    if tmp["free"] < TMP_FREE:
        yield warning("temporary files", what, "free some space there, or set TMPDIR to another")
    elif len(path) > TMPDIR_LENGTH:
        cure = "export TMPDIR=/tmp, or another short path on a local disk"
        yield note("temporary files", f"{what}, a long path for sockets in it", cure)
    else:
        yield ok("temporary files", what)


def _working_folder(facts: Facts) -> Iterator[Finding]:
    if not facts["cwd"]:
        detail = "it was removed: what is started in it does not find its files"
        yield error("working folder", detail, "cd to a folder that exists")


def _hostname(facts: Facts) -> Finding:
    host, address = facts["host"], facts["own_address"]
    if not address:
        return warning(
            "host name",
            f"{host} has no address: MPI and Gloo look it up",
            f"add a line to /etc/hosts: ADDRESS {host}",
        )
    return ok("host name", f"{host} is {address}")


def _clock(facts: Facts) -> Finding:
    now = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(facts["time"]))
    # A clock cannot be older than the code that it runs.
    if facts["time"] < Path(__file__).stat().st_mtime - CLOCK_TOLERANCE:
        return warning("clock", f"{now} is before this package was installed", "set the clock: NTP")
    return ok("clock", now)


def _size(size: float) -> str:
    """Bytes for people: 64 MB, 7.5 GB; powers of 1024."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TB"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
