"""Which device a rank gets, and how many threads."""

from __future__ import annotations

import math

import pytest

from hvd_gan.cluster.device import Device, quota, share_of_cores


@pytest.mark.parametrize(
    ("own", "everyone", "limit", "threads"),
    [
        ({0, 1}, [{0, 1}], math.inf, 2),
        ({0, 1}, [{0, 1}] * 2, math.inf, 1),
        ({0, 1}, [{0, 1}] * 8, math.inf, 1),
        (set(range(6)), [set(range(6))] * 3, math.inf, 2),
        # Bound by the launcher: the cores are the rank's own.
        ({0, 1}, [{0, 1}, {2, 3}], math.inf, 2),
        # A container's quota is for all ranks in it.
        (set(range(16)), [set(range(16))] * 2, 4.0, 2),
    ],
)
def test_cores_are_shared_by_the_ranks_that_may_use_them(own, everyone, limit, threads):
    assert share_of_cores(own, everyone, limit) == threads


@pytest.mark.parametrize(
    ("text", "cores"), [("200000 100000\n", 2.0), ("max 100000\n", math.inf), (None, math.inf)]
)
def test_a_containers_quota_is_read(text, cores, tmp_path):
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    assert quota(tmp_path) == cores


@pytest.mark.parametrize(("limit", "cores"), [("150000", 1.5), ("-1", math.inf)])
def test_so_is_one_of_the_first_version_of_control_groups(limit, cores, tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text(f"{limit}\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert quota(tmp_path) == cores


def test_a_device_says_what_it_is():
    assert str(Device(None, 1)) == "CPU, 1 thread"
    assert str(Device(None, 4)) == "CPU, 4 threads"
    assert str(Device(3, 4)) == "GPU 3"
