"""The network between hosts: one choice of an interface, for every layer that opens connections."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import psutil

from hvd_gan.cluster.launcher import LaunchError

# The variable that names the interface.
NIC = "HVD_GAN_NIC"

# Each layer's own name for it, in ranks: Open MPI's messages, Horovod's Gloo, NCCL.
LAYERS = ("OMPI_MCA_btl_tcp_if_include", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
# And in mpirun, which has connections of its own: Open MPI 4's name and 5's.
LAUNCHER_LAYERS = ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include")

# mpirun does not notice by itself that a host has vanished. With these it does, in 12 s: seconds
# without a word, between questions, and questions without an answer.
KEEPALIVE = {"keepalive_time": "5", "keepalive_intvl": "2", "keepalive_probes": "3"}


def choose_nic(nic: str | None) -> None:
    """Makes all layers of this process use a network interface: `nic`, else that of `NIC`, if any.

    Call before Horovod starts.
    """
    nic = nic or os.environ.get(NIC)
    if nic:
        for variable in (NIC, *LAYERS):
            os.environ[variable] = nic


def check_nic(environment: Mapping[str, str] = os.environ) -> None:
    """Raises LaunchError if this host has no network interface, with an address, of the name that
    `NIC` says. Some layers would only say that they find none, others nothing at all.
    """
    nic = environment.get(NIC)
    usable = sorted(
        name
        for name, entries in psutil.net_if_addrs().items()
        if any(entry.family in (socket.AF_INET, socket.AF_INET6) for entry in entries)
    )
    if nic and nic not in usable:
        raise LaunchError(
            f"host {socket.gethostname()} has no network interface {nic} with an address "
            f"({NIC} or --nic); it has {', '.join(usable)}"
        )


def launcher_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a launcher is started with: keepalives, and the interface that `NIC` names."""
    prefixes = ("OMPI_MCA_oob_tcp", "PRTE_MCA_oob_tcp")
    keepalive = {f"{p}_{name}": value for p in prefixes for name, value in KEEPALIVE.items()}
    nic = environment.get(NIC)
    interfaces = dict.fromkeys((*LAYERS, *LAUNCHER_LAYERS), nic) if nic else {}
    # What the user has set stays.
    return {**keepalive, **{k: v for k, v in interfaces.items() if v}, **environment}
