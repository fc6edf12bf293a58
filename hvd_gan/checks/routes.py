"""The network interface by which every host reaches every other: found by connecting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from itertools import permutations

from hvd_gan.checks.findings import Finding, error, ok
from hvd_gan.checks.nics import Nic, describe, fit, subnet, unfit
from hvd_gan.checks.visit import Visit

# For each host, the interface that it would use.
Choice = tuple[Nic, ...]


def choices(nics: Sequence[Sequence[Nic]]) -> dict[str, Choice]:
    """The ways in which all hosts could talk, by name; the fastest first.

    Interfaces of one name on all hosts, else those of one subnet, under whatever names.
    """
    able = [fit(theirs) for theirs in nics]
    by_name = _common([{nic["name"]: nic for nic in theirs} for theirs in able])
    by_subnet = _common([{subnet(nic): nic for nic in theirs} for theirs in able])
    named = {tuple(nic["name"] for nic in choice) for choice in by_name.values()}
    others = {
        key: choice
        for key, choice in by_subnet.items()
        if tuple(nic["name"] for nic in choice) not in named
    }
    ordered = sorted(by_name.items(), key=lambda item: -min(nic["speed"] for nic in item[1]))
    return {**dict(ordered), **others}


def _common(nics: Sequence[Mapping[str, Nic]]) -> dict[str, Choice]:
    keys = [key for key in nics[0] if all(key in theirs for theirs in nics)]
    return {key: tuple(theirs[key] for theirs in nics) for key in keys}


def check_routes(
    visits: Sequence[Visit], pool: Executor, chosen: str | None = None
) -> list[Finding]:
    """Tries each choice from every host to every other, and names the first that works.

    chosen: the one interface to try, and no other.
    """
    nics = [visit.facts["nics"] for visit in visits]
    able = choices(nics)
    names = [visit.host.name for visit in visits]
    if chosen:
        others = " or ".join(f"--nic {key}" for key in able if key != chosen and "/" not in key)
        cure = others or "without --nic, the one that all hosts have in common is looked for"
        if missing := _missing(chosen, names, nics):
            return [error("network", f"--nic {chosen}: {missing}", cure)]
        able = {chosen: able[chosen]}
    if not able:
        lists = "; ".join(
            f"{name}: {', '.join(map(describe, fit(theirs))) or 'none'}"
            for name, theirs in zip(names, nics, strict=True)
        )
        cure = "put all hosts on one network, with an interface of the same name"
        return [error("network", f"no interface is on all hosts ({lists})", cure)]
    failures = []
    for key, choice in able.items():
        failure = _failure(visits, choice, pool)
        if not failure:
            return [_found(key, choice, names, nics)]
        failures.append(f"{key}: {failure}")
    cure = "let the hosts reach each other on all ports (firewall, security group, routes)"
    return [error("network", failure, cure) for failure in failures]


def _missing(chosen: str, names: Sequence[str], nics: Sequence[Sequence[Nic]]) -> str:
    """On which hosts an interface is not there, or not fit; empty if it is on all."""
    why = []
    for name, theirs in zip(names, nics, strict=True):
        found = next((nic for nic in theirs if nic["name"] == chosen), None)
        if reason := "not there" if found is None else unfit(found):
            why.append(f"{reason} on {name}")
    return ", ".join(why)


def _failure(visits: Sequence[Visit], choice: Choice, pool: Executor) -> str:
    """The first pair of hosts that cannot connect; empty if all can."""
    ends = list(zip(visits, choice, strict=True))
    targets: dict[Visit, list[tuple[Visit, Nic]]] = {visit: [] for visit in visits}
    for (source, _), (target, nic) in permutations(ends, 2):
        targets[source].append((target, nic))

    def ask(end: tuple[Visit, Nic]) -> list[str]:
        source, own = end
        ways = [
            [own["address"], nic["address"], target.facts["port"]]
            for target, nic in targets[source]
        ]
        try:
            return source.ask(ways)
        except OSError as problem:
            return [str(problem)] * len(ways)

    for (source, _), problems in zip(ends, pool.map(ask, ends), strict=True):
        for (target, nic), problem in zip(targets[source], problems, strict=True):
            if problem:
                to = f"{target.host.name} ({nic['address']})"
                return f"{source.host.name} does not reach {to}: {problem}"
    return ""


def _found(
    key: str, choice: Choice, names: Sequence[str], nics: Sequence[Sequence[Nic]]
) -> Finding:
    used = {nic["name"] for nic in choice}
    use = f"use --nic {key}"
    if len(used) > 1:
        each = ", ".join(
            f"{nic['name']} on {name}" for name, nic in zip(names, choice, strict=True)
        )
        use = f"its names differ: set HVD_GAN_NIC to {each}"
    bad = {
        describe(nic)
        for theirs in nics
        for nic in theirs
        if unfit(nic) and nic["address"] and nic["name"] != "lo"
    }
    rest = f"; unfit: {', '.join(sorted(bad))}" if bad else ""
    rows = [
        {"host": name, "interface": nic["name"], "address": f"{nic['address']}/{nic['prefix']}"}
        for name, nic in zip(names, choice, strict=True)
    ]
    return ok("network", f"all hosts reach all others by {key}: {use}{rest}", rows)
