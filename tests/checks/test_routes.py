"""The interface that all hosts have in common is found by name, else by subnet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hvd_gan.checks.routes import check_routes, choices
from hvd_gan.checks.visit import Host
from tests.checks.facts import nic


def test_a_name_that_is_fit_on_all_hosts_is_a_choice_and_docker0_never():
    one = [nic("docker0", "172.17.0.1", 16), nic("eth0", "10.0.0.1")]
    two = [nic("docker0", "172.17.0.1", 16), nic("eth0", "10.0.0.2")]
    assert choices([one, two]) == {"eth0": (one[1], two[1])}


def test_the_faster_network_comes_first():
    one = [nic("eth0", "10.0.0.1", speed=1000), nic("ib0", "10.1.0.1", speed=100_000)]
    two = [nic("eth0", "10.0.0.2", speed=1000), nic("ib0", "10.1.0.2", speed=100_000)]
    assert list(choices([one, two])) == ["ib0", "eth0"]


def test_one_subnet_under_several_names_is_a_choice():
    one, two = [nic("eth0", "10.0.0.1")], [nic("ens3", "10.0.0.2")]
    assert choices([one, two]) == {"10.0.0.0/24": (one[0], two[0])}


def test_hosts_without_anything_in_common_have_no_choice():
    assert choices([[nic("eth0", "10.0.0.1")], [nic("ens3", "10.9.0.2")]]) == {}
    assert choices([[nic("eth0")], [nic("eth0", up=False)]]) == {}


class Visited:
    """A host with two networks that connects where both ends are on the first."""

    def __init__(self, name: str, *nics: dict) -> None:
        self.host = Host(name, 1)
        self.facts = {"nics": nics, "port": 7}

    def ask(self, ways):
        return ["" if own.startswith("10.0.") else "No route to host" for own, _, _ in ways]


def visited(number: int, *more: dict) -> Visited:
    eth, ib = nic("eth0", f"10.0.0.{number}", speed=10), nic("ib0", f"10.1.0.{number}", speed=100)
    return Visited(f"h{number}", eth, ib, nic("docker0", "172.17.0.1"), *more)


@pytest.mark.parametrize(
    ("chosen", "severity", "words", "cure"),
    [
        (None, "ok", "by eth0", None),
        ("eth0", "ok", "by eth0", None),
        ("ib0", "error", "ib0: h1 does not reach h2 (10.1.0.2): No route to host", "ports"),
        (
            "eth9",
            "error",
            "--nic eth9: not there on h1, not there on h2",
            "--nic ib0 or --nic eth0",
        ),
        ("wlan0", "error", "--nic wlan0: not there on h1", "--nic ib0 or --nic eth0"),
        ("docker0", "error", "containers' bridge on h1", "--nic ib0 or --nic eth0"),
    ],
)
def test_an_interface_that_was_chosen_is_tried_alone(chosen, severity, words, cure):
    with ThreadPoolExecutor(2) as pool:
        visits = [visited(1), visited(2, nic("wlan0", "10.0.9.2"))]
        [finding] = check_routes(visits, pool, chosen)
    assert finding.severity == severity and words in finding.detail
    assert cure is None or cure in finding.cure
