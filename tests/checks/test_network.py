"""Allreduce is judged by its bandwidth and its latency."""

from __future__ import annotations

from hvd_gan.checks.network import judge


def rows(latency: float, bandwidth: float, mpi: float | None = 3.0) -> list[dict]:
    small = {"size": "4 B", "ms": latency, "GB/s": 0.0, "MPI ms": mpi, "MPI GB/s": mpi}
    return [small, {**small, "size": "64 MB", "ms": 9.0, "GB/s": bandwidth}]


def test_a_fast_network_is_well_and_shows_its_figures():
    finding = judge(rows(1.0, 2.5), hosts=2)
    assert finding.severity == "ok" and finding.detail == "64 MB at 2.5 GB/s, 4 B in 1 ms"
    assert list(finding.rows) == rows(1.0, 2.5)


def test_a_slow_network_between_hosts_asks_for_another_and_keeps_its_figures():
    for slow in (rows(1.0, 0.01), rows(50.0, 2.5)):
        finding = judge(slow, hosts=2)
        assert finding.severity == "warning" and "--nic" in finding.cure
        assert list(finding.rows) == slow
    assert "fewer ranks" in judge(rows(1.0, 0.01), hosts=1).cure


def test_gloo_says_that_there_is_no_mpi_beside():
    assert "Gloo" in judge(rows(1.0, 2.5, None), hosts=1).detail
