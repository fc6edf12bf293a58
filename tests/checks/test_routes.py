"""The interface that all hosts have in common is found by name, else by subnet."""

from __future__ import annotations

from hvd_gan.checks.routes import choices
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
