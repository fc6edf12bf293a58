"""The network between hosts: one choice of an interface, for every layer that opens connections."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

import psutil

from hvd_gan.cluster.launcher import LaunchError

# The variable that names the interface.
NIC = "HVD_GAN_NIC"

# Each layer's own name for it, in ranks: Open MPI's messages, Horovod's Gloo, NCCL.
LAYERS = ("OMPI_MCA_btl_tcp_if_include", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
# And in mpirun, which has connections of its own: Open MPI 4's name and 5's.
LAUNCHER_LAYERS = ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include")

# mpirun does not notice by itself that a host has vanished. With these it does, in 16 s: seconds
# without a word, between questions, and questions without an answer. The hub, which knows of ranks,
# is to be first (wire.RANK_UNREACHABLE_SECONDS).
KEEPALIVE = {"keepalive_time": "7", "keepalive_intvl": "3", "keepalive_probes": "3"}


def choose_nic(nic: str | None) -> None:
    """Makes all layers of this process use a network interface: `nic`, else that of `NIC`, if any.

    Call before Horovod starts.
    """
    nic = nic or os.environ.get(NIC)
    if nic:
        for variable in (NIC, *LAYERS):
            os.environ[variable] = nic


def check_nic() -> None:
    """Raises LaunchError if the chosen interface is none of this host's, or has no address."""
    nic = os.environ.get(NIC)
    if not nic:
        return
    there = psutil.net_if_addrs()
    kinds = (socket.AF_INET, socket.AF_INET6)
    if not any(entry.family in kinds for entry in there.get(nic, ())):
        raise LaunchError(
            f"--nic {nic}: host {socket.gethostname()} has no such network interface with an "
            f"address; it has {', '.join(sorted(there))} (python -m hvd_gan.doctor --hosts says "
            "which one reaches all hosts)"
        )


def check_own_name() -> None:
    """Raises LaunchError if this host does not know its own name: Gloo would abort the process."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        raise LaunchError(
            f"this host does not know its own name, {name}, which Horovod needs; add the line "
            f"'127.0.1.1 {name}' to /etc/hosts, or install libnss-myhostname"
        ) from None


def launcher_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a launcher is started with: keepalives, and the interface that `NIC` names."""
    prefixes = ("OMPI_MCA_oob_tcp", "PRTE_MCA_oob_tcp")
    keepalive = {f"{p}_{name}": value for p in prefixes for name, value in KEEPALIVE.items()}
    nic = environment.get(NIC)
    interfaces = dict.fromkeys((*LAYERS, *LAUNCHER_LAYERS), nic) if nic else {}
    # What the user has set stays.
    return {**keepalive, **{k: v for k, v in interfaces.items() if v}, **environment}


def with_nic(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """A launcher's command, told of the interface: horovodrun takes it by a flag alone."""
    nic, flag = environment.get(NIC), "--network-interfaces"
    named = any(word.startswith("--network-interface") for word in command)
    for place, word in enumerate(command, start=1):
        if nic and not named and word.rpartition("/")[2] in ("horovodrun", "horovod.runner.launch"):
            return [*command[:place], flag, nic, *command[place:]]
    return list(command)
