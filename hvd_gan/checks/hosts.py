"""Hosts before a launch: can ranks be started there, and would they find one another?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from hvd_gan.checks import report
from hvd_gan.checks.daemons import check_daemon
from hvd_gan.checks.findings import Finding, Severity, error, exit_code, note, ok, warning
from hvd_gan.checks.machine import check_machine, usable_cores
from hvd_gan.checks.ranks import CLOCK_TOLERANCE, first_difference
from hvd_gan.checks.routes import check_routes
from hvd_gan.checks.survey import survey
from hvd_gan.checks.visit import Host, Unreachable, Visit, is_here

Facts = Mapping[str, Any]
# What the machine's check says of these, this one says better.
OWN = {"load", "memory", "nics", "clock"}


def parse_hosts(text: str) -> tuple[Host, ...]:
    """`a:4,b:4`, as horovodrun's -H takes it. Raises ValueError."""
    hosts = []
    for entry in text.split(","):
        found = re.fullmatch(r"\s*([\w.-]+)(?::(\d+))?\s*", entry)
        # A name with a leading dash would be an option of ssh's.
        if not found or found[1].startswith("-") or found[2] == "0":
            raise ValueError(f"{entry!r} is not HOST or HOST:SLOTS; write a:4,b:4")
        hosts.append(Host(found[1], int(found[2] or 1)))
    names = [host.name for host in hosts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} stands twice; add its slots up")
    return tuple(hosts)


def check_hosts(hosts: Sequence[Host], as_json: bool, nic: str | None = None) -> int:
    """Visits all hosts at once, prints the report and returns the exit code.

    nic: the network interface by which ranks are to reach each other; None to look for one.
    """
    with ExitStack() as stack, ThreadPoolExecutor(len(hosts)) as pool:
        visits = [
            stack.enter_context(visit) if isinstance(visit, Visit) else visit
            for visit in pool.map(_visit, hosts)
        ]
        reached = [visit for visit in visits if isinstance(visit, Visit)]
        ours = survey()
        offsets = dict(zip(reached, pool.map(_clock_offset, reached), strict=True))
        findings = [
            [finding.at(host=host.name) for finding in _check_host(host, visit, ours, offsets)]
            for host, visit in zip(hosts, visits, strict=True)
        ]
        for finding, visit in zip(pool.map(_daemon, reached), reached, strict=True):
            if finding:
                findings[visits.index(visit)].append(finding.at(host=visit.host.name))
        between = check_routes(reached, pool, nic) if len(reached) > (0 if nic else 1) else []
    if not as_json:
        for host, theirs in zip(hosts, findings, strict=True):
            report.show(
                f"{host.name}, {host.slots} slot{'s' if host.slots > 1 else ''}",
                [finding.at() for finding in theirs],
            )
        report.show("Between hosts", between)
    everything = [*(finding for theirs in findings for finding in theirs), *between]
    if as_json:
        print(report.as_json(everything))
    return exit_code(everything)


def _visit(host: Host) -> Visit | Unreachable:
    try:
        return Visit(host)
    except Unreachable as problem:
        return problem


def _daemon(visit: Visit) -> Finding | None:
    """Launchers start ranks on their own machine without a daemon's help."""
    return None if is_here(visit.host.name) else check_daemon(visit.host.name)


def _clock_offset(visit: Visit) -> float | None:
    try:
        return visit.clock_offset()
    except OSError:
        return None


def _check_host(
    host: Host, visit: Visit | Unreachable, ours: Facts, offsets: Mapping[Visit, float | None]
) -> Iterator[Finding]:
    if isinstance(visit, Unreachable):
        yield visit.finding
        return
    facts = visit.facts
    how = "this machine" if is_here(host.name) else "reached without a password"
    yield ok("ssh", f"{how}, in {visit.seconds:.1f} s")
    yield from check_software(ours, facts)
    yield from check_slots(host, facts)
    yield _clock(offsets[visit])
    for finding in check_machine(facts, host.slots):
        if finding.severity is not Severity.OK and finding.name not in OWN:
            yield finding


def check_software(ours: Facts, theirs: Facts) -> Iterator[Finding]:
    """Whether Python, its packages and this package are the same on another host as here."""
    where = "install the same there, or share one environment between the hosts"
    if theirs["python"] != ours["python"]:
        yield error("python", f"{theirs['python']}; here {ours['python']}", where)
    else:
        yield ok("python", f"{theirs['python']}, {theirs['executable']}")
    names = {**ours["versions"], **theirs["versions"]}
    for name in names:
        have, want = theirs["versions"].get(name, "missing"), ours["versions"].get(name, "missing")
        if have != want:
            yield error(name, f"{have}; here {want}", where)
    files = theirs["package"].get("files")
    if files is None:
        detail = f"cannot be imported in {theirs['cwd']}"
        cure = f"install it there, or share {ours['cwd']} between the hosts"
        yield error("hvd_gan", detail, cure)
    elif change := first_difference(ours["package"]["files"], files):
        detail = f"{theirs['package']['folder']} {change} {ours['package']['folder']} here"
        yield error("hvd_gan", detail, "bring the same version to all hosts (git pull, rsync)")
    else:
        yield ok("hvd_gan", f"the same {len(files)} files as here")


def check_slots(host: Host, facts: Facts) -> Iterator[Finding]:
    """Whether a host has a GPU, or else a core, for each of its ranks, and whether it is idle."""
    cores, gpus, load = usable_cores(facts), len(facts["gpus"]["names"]), facts["load"]
    what = f"{gpus} GPUs, {cores:g} cores" if gpus else f"{cores:g} cores, no GPU"
    if 0 < gpus < host.slots:
        yield error("slots", f"{what} for {host.slots} ranks", f"write {host.name}:{gpus}")
    elif not gpus and cores < host.slots:
        fitting = max(1, int(cores))
        yield warning("slots", f"{what} for {host.slots} ranks", f"write {host.name}:{fitting}")
    else:
        yield ok("slots", f"{what} for {host.slots} rank{'s' if host.slots > 1 else ''}")
    if load > max(1.0, facts["all_cores"] - host.slots + 0.5):
        busy = f"{load:.1f} on {facts['all_cores']} cores: other jobs run there"
        yield note("load", busy, "end them, or take fewer slots")


def _clock(offset: float | None) -> Finding:
    if offset is None:
        return error("ssh", "the connection ended while its clock was compared", "try again")
    direction = "ahead of" if offset > 0 else "behind"
    what = f"{abs(offset):.3f} s {direction} this machine's"
    if abs(offset) > CLOCK_TOLERANCE:
        return warning("clock", what, "let NTP set it (timedatectl set-ntp true)")
    return ok("clock", what)
