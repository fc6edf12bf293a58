"""Horovod alone in this process, for tests that train through the whole engine."""

from __future__ import annotations

import horovod.tensorflow as hvd
import pytest


@pytest.fixture(scope="session")
def horovod():
    """Starts it once, on Gloo, which needs no launcher to be alone."""
    with pytest.MonkeyPatch.context() as patch:
        # Only while it starts: the jobs that other tests launch inherit the environment.
        patch.setenv("HOROVOD_CONTROLLER", "gloo")
        patch.setenv("HOROVOD_CPU_OPERATIONS", "gloo")
        hvd.init()
