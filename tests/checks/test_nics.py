"""Interfaces that lead to no other host are named as such, and never taken."""

from __future__ import annotations

import pytest

from hvd_gan.checks.nics import check_nics, fit, unfit
from tests.checks.facts import facts, nic


@pytest.mark.parametrize(
    "name",
    ["lo", "docker0", "br-0123456789ab", "virbr0", "veth12ab", "tailscale0", "wg0", "cni0", "tun0"],
)
def test_an_interface_of_such_a_name_is_unfit_though_it_is_up(name):
    assert unfit(nic(name))
    assert fit([nic(name), nic("ens3")]) == [nic("ens3")]


@pytest.mark.parametrize("name", ["eth0", "ens3", "enp1s0f0", "ib0", "bond0", "br0", "eno1np0"])
def test_an_interface_of_such_a_name_is_fit(name):
    assert not unfit(nic(name))


def test_what_is_down_or_has_no_address_is_unfit():
    assert unfit(nic("eth0", up=False)) == "down"
    assert unfit(nic("eth0", address=None)) == "no IPv4 address"


def test_the_faster_comes_first():
    slow, fast = nic("eth0", speed=1000), nic("ib0", speed=100_000)
    assert fit([slow, fast]) == [fast, slow]


def test_the_finding_names_what_would_be_taken_and_what_is_unfit():
    nics = [nic("docker0", "172.17.0.1"), nic("ib0", "10.1.0.1", speed=100_000), nic("eth0")]
    finding = check_nics(facts(nics=nics, default_nic="eth0"))
    assert finding.detail.startswith("eth0 10.0.0.1/24 10 Gbit/s, ib0 10.1.0.1/24 100 Gbit/s")
    assert "--nic eth0" in finding.detail and "docker0 (containers' bridge)" in finding.detail


def test_a_chosen_interface_has_to_be_there_and_fit():
    nics = [nic("docker0", "172.17.0.1"), nic("eth0"), nic("ib0", "10.1.0.1")]

    def chosen(name):
        return check_nics(facts(nics=nics, chosen_nic=name))

    assert chosen("ib0").severity == "ok" and chosen("ib0").detail.startswith("ib0 10.1.0.1")
    for name, words in (("eth7", "not on this host"), ("docker0", "containers' bridge")):
        assert chosen(name).severity == "error" and words in chosen(name).detail
        assert "eth0, ib0" in chosen(name).cure
