"""Hosts for the tests of this folder; where there can be none, a test says so and is skipped."""

from __future__ import annotations

import pytest

from tests.cluster import namespaces


@pytest.fixture
def two_hosts(tmp_path_factory):
    yield from _hosts(2, tmp_path_factory)


@pytest.fixture
def three_hosts(tmp_path_factory):
    yield from _hosts(3, tmp_path_factory)


def _hosts(count, folders):
    if reason := namespaces.missing():
        pytest.skip(reason)
    with namespaces.hosts(count, folders.mktemp("hosts") / "etc") as made:
        yield made
