"""A rank that runs other code than rank 0 is named, with what differs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hvd_gan.cluster.world import AgreedError
from hvd_gan.same_code import check_same_code


def world(**changes: str | None) -> SimpleNamespace:
    """Two ranks, the second with some entries changed; None takes one away."""

    def gather(mine):
        theirs = {**mine, **changes}
        return [mine, {name: value for name, value in theirs.items() if value is not None}]

    return SimpleNamespace(gather=gather, members=("a", "b"))


def test_the_same_code_passes():
    check_same_code(world())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"TensorFlow": "2.0.0"},
            "rank 1 on host b has TensorFlow 2.0.0, and rank 0 on host a",
        ),
        ({"hvd_gan/job.py": "0123"}, "has hvd_gan/job.py 0123, and rank 0"),
        ({"hvd_gan/job.py": None}, "has hvd_gan/job.py missing, and rank 0"),
        ({"hvd_gan/new.py": "0123"}, "has hvd_gan/new.py 0123, and rank 0 on host a has missing"),
    ],
)
def test_what_differs_is_named(changes, expected):
    with pytest.raises(AgreedError, match=expected):
        check_same_code(world(**changes))
