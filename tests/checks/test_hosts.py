"""Hosts are read from the command line, and compared with this machine."""

from __future__ import annotations

import pytest

from hvd_gan.checks.hosts import check_slots, check_software, parse_hosts
from hvd_gan.checks.visit import Host
from tests.checks.facts import HEALTHY, facts


def severities(findings) -> dict[str, str]:
    return {finding.name: finding.severity for finding in findings}


def test_hosts_and_slots_are_read_as_horovodrun_reads_them():
    assert parse_hosts("a:4, b.example:2,10.0.0.3") == (
        Host("a", 4),
        Host("b.example", 2),
        Host("10.0.0.3", 1),
    )


@pytest.mark.parametrize("text", ["", "a:x", "a:0", "a,,b", "a:1,a:2", "-oProxyCommand=x:1"])
def test_what_is_not_a_list_of_hosts_is_refused(text):
    with pytest.raises(ValueError):
        parse_hosts(text)


def test_a_host_like_this_one_is_well():
    assert severities(check_software(HEALTHY, HEALTHY)) == {"python": "ok", "hvd_gan": "ok"}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("python", {"python": "3.12.1"}),
        ("horovod", {"versions": {"tensorflow-cpu": "2.21.0"}}),
        ("tensorflow-cpu", {"versions": {"tensorflow-cpu": "2.15.1", "horovod": "0.28.1"}}),
        ("hvd_gan", {"package": {}}),
        ("hvd_gan", {"package": {"folder": "/srv/hvd_gan", "files": {"train.py": "9"}}}),
    ],
)
def test_software_that_differs_is_an_error(name, changes):
    found = severities(check_software(HEALTHY, facts(**changes)))
    assert found.pop(name) == "error" and "error" not in found.values()


@pytest.mark.parametrize(
    ("slots", "changes", "expected"),
    [
        (8, {}, {"slots": "ok"}),
        (9, {}, {"slots": "warning"}),
        (4, {"quota": 2.0}, {"slots": "warning"}),
        (4, {"load": 7.5}, {"slots": "ok", "load": "note"}),
        (2, {"gpus": {"names": ["GPU 0"], "problem": ""}}, {"slots": "error"}),
        (1, {"gpus": {"names": ["GPU 0"], "problem": ""}}, {"slots": "ok"}),
    ],
)
def test_slots_are_free_or_not(slots, changes, expected):
    assert severities(check_slots(Host("a", slots), facts(**changes))) == expected
