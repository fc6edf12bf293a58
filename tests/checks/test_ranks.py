"""Ranks that differ are named, with what differs."""

from __future__ import annotations

from hvd_gan.checks.findings import note, ok, warning
from hvd_gan.checks.ranks import (
    cores_of_hosts,
    differing_code,
    differing_findings,
    differing_versions,
)
from tests.checks.facts import facts

HOSTS = ["a", "a", "b"]


def test_versions_that_differ_are_errors_of_their_rank():
    ours = {"python": "3.11.7", "numpy": "2.4.6"}
    [finding] = differing_versions(HOSTS, [ours, ours, {**ours, "numpy": "1.26.4"}])
    assert (finding.severity, finding.rank, finding.host) == ("error", 2, "b")
    assert finding.detail == "numpy 1.26.4; rank 0 has 2.4.6"
    [missing] = differing_versions(["a", "b"], [ours, {"python": "3.11.7"}])
    assert "numpy" in missing.detail
    [same] = differing_versions(HOSTS, [ours] * 3)
    assert same.severity == "ok"


def test_code_that_differs_is_named_by_its_file():
    ours = {"folder": "/x", "files": {"a.py": "1", "b.py": "2"}}

    def finding(files):
        return differing_code(["a", "b"], [ours, {"folder": "/y", "files": files}])[0]

    assert finding(ours["files"]).severity == "ok"
    changed = finding({"a.py": "1", "b.py": "3"})
    assert (changed.severity, changed.rank, changed.host) == ("error", 1, "b")
    assert "/y has another b.py than rank 0's /x" in changed.detail
    assert "lacks a.py and 1 more of" in finding({}).detail
    assert "has c.py, not in" in finding({**ours["files"], "c.py": "1"}).detail


def test_cores_are_judged_on_each_host_by_its_own_ranks():
    ranks = [facts(cpus=[0, 1]), facts(cpus=[0, 1]), facts(cpus=[0]), facts(cpus=[0])]
    first, second = cores_of_hosts(["a", "a", "b", "b"], ranks)
    assert (first.severity, first.rank, first.host) == ("ok", None, None)
    assert (second.severity, second.rank, second.host) == ("warning", 2, "b")
    assert "1 of 8 usable" in second.detail
    # The same cores on two hosts are not shared.
    [alone] = cores_of_hosts(["a", "b"], [facts(cpus=[0, 1]), facts(cpus=[0, 1])])
    assert alone.severity == "ok" and "1 rank" in alone.detail


def test_what_ails_other_hosts_is_told_once_a_host_and_not_if_rank_0_has_it_too():
    small, busy = warning("shared memory", "64 MB", "more"), note("load", "9", "less")
    well = ok("python", "3.11")
    ranks = [[well, busy], [well, busy], [ok("python", "3.11.1"), small, busy]]
    told = differing_findings(HOSTS, [[one.plain() for one in theirs] for theirs in ranks])
    assert told == [small.at(2, "b")]
    twice = differing_findings(HOSTS, [[], [small.plain()], [small.plain()]])
    assert [finding.host for finding in twice] == ["a", "b"]
    assert differing_findings(["a"] * 3, [[], [small.plain()], [small.plain()]]) == twice[:1]
