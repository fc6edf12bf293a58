"""A probe: starts the ranks as training does, compares them, measures and trains a little."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hvd_gan.checks.findings import (
    Finding,
    Severity,
    error,
    exit_code,
    from_plain,
    has_errors,
    ok,
    warning,
)
from hvd_gan.checks.machine import check_binding, check_cores
from hvd_gan.checks.probe import Report

if TYPE_CHECKING:
    # Not before the first phase is told: it imports NumPy, and more.
    from hvd_gan.cluster.world import World

TRAINING_SECONDS = 600.0
CLOCK_ROUNDS = 5
CLOCK_TOLERANCE = 1.0


def main(report: Report, argument: Any) -> int:
    """Reports the findings so far after each check; `complete` after the last."""
    report(phase="starting the ranks")
    from hvd_gan.cluster import together
    from hvd_gan.cluster.network import choose_nic

    choose_nic(None)

    def job(world: World) -> int:
        report(rank=world.rank, host=world.host)
        local = exit_code(from_plain(values) for values in argument["findings"])
        # What is not well on one rank makes all of them end with the same code.
        report(code=max(world.gather(local)))
        findings: list[Finding] = []

        def add(phase: str, more: Sequence[Finding]) -> None:
            findings.extend(more)
            report(findings=[finding.plain() for finding in findings])
            report(phase=phase)

        _check(world, argument, report, add)
        report(complete=True)
        # Every rank comes here. None ends, which may make the launcher end the others, before
        # rank 0's report is printed: that is when its `report` returned.
        world.gather(None)
        return 0

    return together.run(job)


def _check(world: World, argument: Mapping[str, Any], report: Report, add: Any) -> None:
    """Every rank reaches every collective: what it depends on was gathered before."""
    if world.size > 1:
        report(phase="comparing the ranks")
        compared = compare(world, argument)
        add("comparing the ranks", compared)
        # Ranks with different code may make different collective calls from here on.
        if has_errors(compared):
            return
    if argument["quick"]:
        return
    if world.size > 1:
        from hvd_gan.checks.network import check_network

        add("measuring the network", [check_network(world, report)])
    from hvd_gan.checks.smoke import train_a_little

    report(phase="training a little", patience=TRAINING_SECONDS)
    add("training a little", [train_a_little(world)])


def compare(world: World, argument: Mapping[str, Any]) -> list[Finding]:
    """Findings about how ranks differ, the same on all of them. A collective."""
    facts = argument["facts"]
    mine = {
        "device": str(world.device),
        "local_rank": world.local_rank,
        "versions": {"python": facts["python"], **facts["versions"]},
        "package": facts["package"],
        "cores": {name: facts[name] for name in ("cpus", "all_cores", "quota", "gpus")},
        "findings": argument["findings"],
    }
    ranks = world.gather(mine)
    offsets = clock_offsets(world)
    return [
        _placement(world, ranks),
        *cores_of_hosts(world.members, [rank["cores"] for rank in ranks]),
        *differing_findings(world.members, [rank["findings"] for rank in ranks]),
        *differing_versions(world.members, [rank["versions"] for rank in ranks]),
        *differing_code(world.members, [rank["package"] for rank in ranks]),
        *_clocks(world, offsets),
    ]


def clock_offsets(world: World) -> list[float]:
    """By how many seconds each rank's clock is ahead of rank 0's. A collective.

    All leave a gather at about the same moment and read their clocks; the round in which they
    differed least was the one least disturbed.
    """
    rounds = []
    for _ in range(CLOCK_ROUNDS):
        world.gather(None)
        times = world.gather(time.time())
        rounds.append([moment - times[0] for moment in times])
    best = min(rounds, key=lambda offsets: max(map(abs, offsets)))
    return list(world.broadcast(best))


def _placement(world: World, ranks: Sequence[Mapping[str, Any]]) -> Finding:
    rows = [
        {
            "rank": number,
            "host": host,
            "local rank": rank["local_rank"],
            "device": rank["device"],
        }
        for number, (host, rank) in enumerate(zip(world.members, ranks, strict=True))
    ]
    hosts = len(set(world.members))
    return ok("ranks", f"{world.size} on {hosts} host{'s' if hosts > 1 else ''}", rows)


def cores_of_hosts(hosts: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Whether the ranks on each host have cores enough; of other hosts than rank 0's only faults.

    `facts` are those of `survey()` about the cores of each rank.
    """
    findings = []
    for host in dict.fromkeys(hosts):
        numbers = [rank for rank, other in enumerate(hosts) if other == host]
        cores = [facts[rank]["cpus"] for rank in numbers]
        first = facts[numbers[0]]
        for finding in (check_cores(first, cores), *check_binding(first, cores)):
            if host == hosts[0]:
                findings.append(finding)
            elif finding.severity is not Severity.OK:
                findings.append(finding.at(numbers[0], host))
    return findings


def differing_findings(
    hosts: Sequence[str], findings: Sequence[Sequence[Mapping[str, Any]]]
) -> list[Finding]:
    """What is not well on other ranks and not so on rank 0; once a host."""
    known = {(values["name"], values["detail"]) for values in findings[0]}
    told = set()
    different = []
    for rank, (host, theirs) in enumerate(zip(hosts, findings, strict=True)):
        for values in theirs:
            fact = (values["name"], values["detail"])
            if values["severity"] == Severity.OK or fact in known or (host, *fact) in told:
                continue
            told.add((host, *fact))
            different.append(from_plain(values).at(rank, host))
    return different


def differing_versions(
    hosts: Sequence[str], versions: Sequence[Mapping[str, str]]
) -> list[Finding]:
    """An error for each rank and package at another version than rank 0's; else one ok."""
    cure = "install the same on all hosts, or one environment on a file system that all share"
    different = [
        error(
            "versions", f"{name} {theirs.get(name)}; rank 0 has {versions[0].get(name)}", cure
        ).at(rank, host)
        for rank, (host, theirs) in enumerate(zip(hosts, versions, strict=True))
        for name in {**versions[0], **theirs}
        if theirs.get(name) != versions[0].get(name)
    ]
    same = ", ".join(f"{name} {version}" for name, version in versions[0].items())
    return different or [ok("versions", f"the same on all ranks: {same}")]


def differing_code(hosts: Sequence[str], packages: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """An error for each rank whose package has other files than rank 0's; else one ok."""
    different = []
    for rank, (host, package) in enumerate(zip(hosts, packages, strict=True)):
        if change := first_difference(packages[0]["files"], package["files"]):
            detail = f"{package['folder']} {change} rank 0's {packages[0]['folder']}"
            cure = "bring the same version to all hosts; check PYTHONPATH and the working folder"
            different.append(error("code", detail, cure).at(rank, host))
    count = len(packages[0]["files"])
    return different or [ok("code", f"the same {count} files of hvd_gan on all ranks")]


def first_difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """How the second package differs from the first, as a verb with its object; "" if not."""
    names = sorted({**ours, **theirs})
    names = [name for name in names if ours.get(name) != theirs.get(name)]
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    if names[0] not in theirs:
        return f"lacks {names[0]}{more} of"
    if names[0] not in ours:
        return f"has {names[0]}{more}, not in"
    return f"has another {names[0]}{more} than"


def _clocks(world: World, offsets: Sequence[float]) -> list[Finding]:
    if len(set(world.members)) == 1:
        return []
    wrong = [
        warning(
            "clocks",
            f"{abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} rank 0's",
            "let NTP set the clocks of all hosts (timedatectl set-ntp true)",
        ).at(rank, world.members[rank])
        for rank, offset in enumerate(offsets)
        if abs(offset) > CLOCK_TOLERANCE
    ]
    largest = max(map(abs, offsets))
    return wrong or [ok("clocks", f"within {largest * 1000:.0f} ms of rank 0's")]
