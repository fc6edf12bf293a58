"""A machine's faults are found, one at a time."""

from __future__ import annotations

import pytest

from hvd_gan.checks.findings import Severity
from hvd_gan.checks.machine import check_binding, check_cores, check_machine
from tests.checks.facts import GIB, facts

MIB = 2**20


def not_well(ranks: int = 1, **changes) -> dict[str, object]:
    findings = check_machine(facts(**changes), ranks)
    return {finding.name: finding for finding in findings if finding.severity != Severity.OK}


def test_a_healthy_machine_is_well():
    assert not not_well() and not not_well(ranks=8)


@pytest.mark.parametrize(
    ("name", "severity", "changes", "cure"),
    [
        ("load", "note", {"load": 20.0}, "end what else"),
        ("memory", "warning", {"memory": {"total": 8 * GIB, "free": GIB}}, "fewer ranks"),
        (
            "shared memory",
            "warning",
            {"shm": {"path": "/dev/shm", "size": 64 * MIB, "free": 64 * MIB}},
            "--shm-size",
        ),
        (
            "shared memory",
            "error",
            {"shm": {"path": "/dev/shm", "problem": "No such file or directory"}},
            "--shm-size",
        ),
        ("open files", "warning", {"open_files": (256, 65536)}, "ulimit -n 4096"),
        ("open files", "warning", {"open_files": (256, 512)}, "limits.conf"),
        (
            "locked memory",
            "warning",
            {"locked_memory": 64 * 1024, "infiniband": ["mlx5_0"]},
            "ulimit -l unlimited",
        ),
        (
            "temporary files",
            "error",
            {"tmp": {"path": "/tmp", "problem": "Read-only file system"}},
            "TMPDIR",
        ),
        (
            "temporary files",
            "warning",
            {"tmp": {"path": "/tmp", "size": GIB, "free": 10 * MIB}},
            "TMPDIR",
        ),
        (
            "temporary files",
            "note",
            {"tmp": {"path": "/scratch/" + "x" * 90, "size": 99 * GIB, "free": 99 * GIB}},
            "TMPDIR=/tmp",
        ),
        ("working folder", "error", {"cwd": ""}, "cd to"),
        ("nics", "warning", {"nics": []}, "bring the interface up"),
        ("host name", "warning", {"own_address": ""}, "/etc/hosts"),
        ("clock", "warning", {"time": 1e9}, "NTP"),
    ],
)
def test_a_fault_is_found_with_its_cure(name, severity, changes, cure):
    found = not_well(ranks=4, **changes)
    assert list(found) == [name]
    assert found[name].severity == severity
    assert cure in found[name].cure and "\n" not in found[name].cure


def test_unlimited_and_small_limits_without_infiniband_are_well():
    assert not not_well(open_files=(-1, -1)) and not not_well(locked_memory=64 * 1024)


def test_ranks_that_share_cores_need_none_of_their_own_beside_gpus():
    gpus = {"names": [f"GPU {n}" for n in range(8)], "problem": ""}
    four = [range(4)] * 8
    assert check_cores(facts(gpus=gpus), four).severity == Severity.OK
    assert check_cores(facts(), four).severity == Severity.WARNING


@pytest.mark.parametrize(
    ("ranks", "changes", "words", "cure"),
    [
        # Bound by a launcher to a core each, as Open MPI does with two ranks.
        ([[0], [1]], {}, "2 of 64 usable; 1 thread for each of 2 ranks", None),
        ([range(8)] * 2, {}, "8 of 64 usable; 4 threads for each of 2 ranks", None),
        ([range(32), range(32, 64)], {}, "64 usable; 32 threads for each of 2 ranks", None),
        ([range(64)] * 4, {"quota": 8.0}, "8 of 64 usable, a container's quota; 2 threads", None),
        # In a container with two cores; and bound to the same ones.
        ([range(2)] * 4, {}, "2 of 64 usable; 1 thread for each of 4", "start 2 ranks here"),
        ([[0], [0], [1]], {}, "2 of 64 usable; 1 thread for each of 3", "start 2 ranks here"),
        ([range(64)] * 2, {"quota": 1.5}, "1.5 of 64 usable", "start 1 rank here"),
    ],
)
def test_cores_are_counted_over_all_ranks_of_a_host(ranks, changes, words, cure):
    finding = check_cores(facts(all_cores=64, **changes), ranks)
    assert words in finding.detail and finding.cure == cure
    assert finding.severity == ("warning" if cure else "ok")


@pytest.mark.parametrize(
    ("ranks", "changes", "cores"),
    [
        ([[0], [1]], {}, "1 core for a rank, of 64"),
        ([[3]], {}, "1 core for a rank, of 64"),
        ([[0, 1], [0, 1], [2, 3], [2, 3]], {}, "1 core for a rank"),
        ([range(16), range(16, 32)], {}, "16 cores for a rank"),
        # Whole shares; cores of a container or of a job, which are the same for all; its quota.
        ([range(32), range(32, 64)], {}, None),
        ([range(64)] * 2, {}, None),
        ([range(8)] * 2, {}, None),
        ([range(8)], {}, None),
        ([[0], [1]], {"quota": 2.0}, None),
    ],
)
def test_ranks_that_are_bound_to_fewer_cores_than_their_share_are_told(ranks, changes, cores):
    found = list(check_binding(facts(all_cores=64, **changes), ranks))
    assert [finding.severity for finding in found] == (["note"] if cores else [])
    assert not cores or (cores in found[0].detail and "--bind-to none" in found[0].cure)
