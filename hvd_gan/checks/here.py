"""The doctor on one machine, and on every rank that a launcher has started."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvd_gan.checks import report
from hvd_gan.checks.findings import Finding, error, exit_code, from_plain, has_errors
from hvd_gan.checks.gpus import check_gpus
from hvd_gan.checks.installed import check_installed
from hvd_gan.checks.machine import check_cores, check_machine
from hvd_gan.checks.probe import Outcome, probe
from hvd_gan.checks.repair import repair
from hvd_gan.checks.survey import survey
from hvd_gan.cluster.launcher import (
    stated_local_rank,
    stated_local_size,
    stated_rank,
    stated_size,
)

# A rank that cannot start waits so long before its end makes the launcher end the others: they
# look at themselves meanwhile, and what they find is worth telling too.
GRACE_SECONDS = 3.0
SILENCE_SECONDS = 180.0


def check_here(quick: bool, as_json: bool) -> int:
    """Checks this machine, and the ranks where there are several. Returns the exit code.

    Rank 0 alone prints, but for a rank that cannot start, which tells its errors itself.
    """
    size, _ = stated_size()
    launched = size > 1
    rank = stated_rank() or 0
    shows = rank == 0 and not as_json
    ranks_here = stated_local_size()

    facts = survey()
    installed, tensorflow = check_installed(launched, stated_local_rank())
    if shows:
        report.show("Installed", installed, launched)
    machine = check_machine(facts, ranks_here)
    if not launched:
        # On ranks it takes all of them: a launcher may have bound each to cores of its own.
        machine.insert(0, check_cores(facts, [facts["cpus"]]))
    machine.append(check_gpus(facts, tensorflow, ranks_here))
    if shows:
        report.show("Machine", machine, launched)

    findings = [*installed, *machine]
    if has_errors(installed):
        if rank:
            _tell_alone(findings, rank, facts["host"])
        elif as_json:
            print(report.as_json(findings), flush=True)
        return exit_code(findings)

    def tell(more: Sequence[Finding]) -> None:
        """Prints what comes after the machine; on rank 0."""
        if shows:
            report.show("Ranks" if launched else "Training", more, launched)
        elif rank == 0:
            print(report.as_json([*findings, *more]), flush=True)

    if quick and not launched:
        tell([])
        return exit_code(findings)
    more, outcome = _ranks(findings, facts, quick, tell)
    if rank and "complete" not in outcome.results:
        _tell_alone(more, rank, facts["host"])
    return max(exit_code([*findings, *more]), outcome.results.get("code", 0))


def _tell_alone(findings: Sequence[Finding], rank: int, host: str) -> None:
    """A rank that cannot reach rank 0 says what is wrong with it."""
    for finding in findings:
        if has_errors([finding]):
            where = f"doctor: rank {rank} on host {host}: {finding.name}"
            print(f"{where}: {finding.detail}; {finding.cure}", file=sys.stderr, flush=True)
    time.sleep(GRACE_SECONDS)


def _ranks(
    findings: Sequence[Finding],
    facts: Mapping[str, Any],
    quick: bool,
    tell: Callable[[Sequence[Finding]], None],
) -> tuple[list[Finding], Outcome]:
    """Starts the ranks as training does, in a process of its own, and tells what they found.

    Returns that too, and how it ended.
    """
    found: list[Finding] = []

    def hear(values: dict[str, Any]) -> None:
        if "findings" in values:
            found[:] = [from_plain(one) for one in values["findings"]]
        if "complete" in values:
            tell(found)

    argument = {
        "findings": [finding.plain() for finding in findings],
        "facts": dict(facts),
        "quick": quick,
    }
    outcome = probe("hvd_gan.checks.ranks", argument, SILENCE_SECONDS, hear)
    if "complete" not in outcome.results:
        found.append(_failure(outcome))
        tell(found)
    return found, outcome


def _failure(outcome: Outcome) -> Finding:
    """What is to be said of ranks that did not come to the end of their checks."""
    said = [line for line in outcome.stderr.splitlines() if line.startswith("hvd_gan: ")]
    rank, host = outcome.results.get("rank"), outcome.results.get("host")
    name = "start" if rank is None else "checks"
    if outcome.interrupted:
        cure = "see what the other ranks say"
        return error(name, "the launcher ended this rank: another has failed", cure)
    if said:
        # "What is wrong; what to do", as all our errors are written.
        what, stop, cure = said[-1].removeprefix("hvd_gan: ").replace(". ", "; ", 1).partition("; ")
        what = re.sub(r"^rank \d+ of \d+ on host \S+ failed: ", "", what)
        cure = cure if stop else "--verbose training shows more: python -m hvd_gan.train --verbose"
        return error(name, f"{what} (while {outcome.phase})", cure).at(rank, host)
    cure = f"build anew what crashed or hung, or report it: {repair()}"
    if rank is None and outcome.code is None:
        cure = "name the network that joins the hosts with --nic; doctor --hosts a:4,b:4 finds it"
    return error(name, f"{outcome.phase} {outcome.how}", cure).at(rank, host)
