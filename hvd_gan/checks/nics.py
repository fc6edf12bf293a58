"""Which network interfaces are fit to carry ranks' traffic."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hvd_gan.checks.findings import Finding, error, ok, warning

Nic = Mapping[str, Any]

# Names that lead to no other host of a cluster, and what they are.
UNFIT = {
    r"lo\d*": "loopback",
    r"docker\d*|docker_gwbridge|br-[0-9a-f]{6,}|podman\d*|lxcbr\d*|lxdbr\d*": "containers' bridge",
    r"virbr.*|vnet\d+|vboxnet\d+|vmnet\d+": "virtual machines' bridge",
    r"veth.*": "a container's end",
    r"tailscale\d*|tun.*|tap.*|wg\d*|zt.*|ppp\d*|utun\d*": "a VPN",
    r"cni.*|flannel.*|cali.*|cilium.*|lxc.*|kube-.*|nodelocaldns": "Kubernetes' own",
    r"ifb\d*|dummy\d*|sit\d*|gre\d*|teql\d*|ip6tnl\d*|tunl\d*|nlmon\d*": "no wire",
}


def unfit(nic: Nic) -> str:
    """Why an interface cannot carry ranks' traffic; empty if it can."""
    for pattern, kind in UNFIT.items():
        if re.fullmatch(pattern, nic["name"]):
            return kind
    if not nic["up"]:
        return "down"
    return "" if nic["address"] else "no IPv4 address"


def fit(nics: Iterable[Nic]) -> list[Nic]:
    """The interfaces that can carry ranks' traffic, the fastest first."""
    return sorted((nic for nic in nics if not unfit(nic)), key=lambda nic: -nic["speed"])


def subnet(nic: Nic) -> str:
    """The network that an interface belongs to: 10.77.0.0/24."""
    return str(ipaddress.ip_interface(f"{nic['address']}/{nic['prefix']}").network)


def describe(nic: Nic) -> str:
    """An interface for people: eth0 10.77.0.1/24 10 Gbit/s, or docker0 (containers' bridge)."""
    if reason := unfit(nic):
        return f"{nic['name']} ({reason})"
    speed = f" {nic['speed'] / 1000:g} Gbit/s" if nic["speed"] > 0 else ""
    return f"{nic['name']} {nic['address']}/{nic['prefix']}{speed}"


def check_nics(facts: Mapping[str, Any]) -> Finding:
    """Which interface would carry ranks' traffic to other hosts, and which could not."""
    good = fit(facts["nics"])
    if chosen := facts["chosen_nic"]:
        return _check_chosen(chosen, facts["nics"], good)
    bad = ", ".join(describe(nic) for nic in facts["nics"] if unfit(nic))
    rest = f"; unfit: {bad}" if bad else ""
    if not good:
        return warning(
            "nics",
            f"none leads to another host{rest}",
            "on one machine that does no harm; for several, bring the interface up that joins them",
        )
    # The default route's interface is what most programs take without being told.
    good.sort(key=lambda nic: nic["name"] != facts["default_nic"])
    names = ", ".join(describe(nic) for nic in good)
    several = f"; --nic {good[0]['name']} would choose the first" if len(good) > 1 else ""
    return ok("nics", names + several + rest)


def _check_chosen(chosen: str, nics: Iterable[Nic], good: Iterable[Nic]) -> Finding:
    """Whether the interface that HVD_GAN_NIC names is there and fit."""
    names = ", ".join(nic["name"] for nic in good) or "none here, so unset it"
    cure = f"name one that leads to the other hosts: {names}"
    found = next((nic for nic in nics if nic["name"] == chosen), None)
    if found is None:
        return error("nics", f"{chosen}, which was chosen, is not on this host", cure)
    if reason := unfit(found):
        return error("nics", f"{chosen}, which was chosen, leads to no other host: {reason}", cure)
    return ok("nics", f"{describe(found)}, as chosen")
