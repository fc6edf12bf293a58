"""A machine's faults are found, one at a time."""

from __future__ import annotations

import pytest

from hvd_gan.checks.findings import Severity
from hvd_gan.checks.machine import check_machine
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
        ("cores", "warning", {"cores": 2}, "start 2 ranks here"),
        ("cores", "warning", {"quota": 1.5}, "start 1 rank here"),
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
    assert not not_well(ranks=8, cores=4, gpus=gpus)
