"""Elastic jobs: ranks come and go, and the rest goes on from what it holds in memory.

Horovod's driver (`horovodrun --min-np ... --host-discovery-script ...`) starts and counts the
ranks. When one is lost, the others' collectives fail; when one may join, the driver says so. Either
way all ranks that there are now start Horovod anew and build their graphs for the new size, and
rank 0, which is always one that was there before, brings its state to all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from horovod.common.elastic import State, notification_manager
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

Values = dict[str, np.ndarray]


class Committed(State):
    """What a rank holds of the run: every variable at some step, the same on all ranks.

    `values` is None until the first commit, and on a rank that has just joined.
    """

    def __init__(self) -> None:
        super().__init__(bcast_object=self._broadcast, get_rank=lambda: 0)
        self.values: Values | None = None
        self._carry: Callable[[Any], Any] = lambda value: value

    def join(self, broadcast: Callable[[Any], Any]) -> None:
        """Begins in a new world, through whose `broadcast` rank 0's news of hosts reach all."""
        self._carry = broadcast
        self.on_reset()

    def keep(self, values: Values) -> None:
        """Holds on to a state, and lets all ranks start anew if hosts have come or gone.

        A collective: every rank calls it after the same step, rank 0 when it has written what
        belongs to that step: if it is lost before, the others have not kept what nobody wrote down.
        Raises HostsUpdatedInterrupt on all.
        """
        try:
            self.check_host_updates()
        except HostsUpdatedInterrupt:
            self.values = values
            raise
        self.values = values

    def save(self) -> None:
        """Nothing: `keep` is given what to hold."""

    def restore(self) -> None:
        """Nothing: the next start reads `values`."""

    def sync(self) -> None:
        """Nothing: the one broadcast of all variables does it."""

    def _broadcast(self, value: Any) -> Any:
        return self._carry(value)


def is_lost_rank(error: BaseException) -> bool:
    """Whether an error says that Horovod has lost another rank, or that hosts have changed."""
    if isinstance(error, HorovodInternalError | HostsUpdatedInterrupt):
        return True
    return type(error).__module__.startswith("tensorflow") and "orovod" in str(error)


@contextlib.contextmanager
def hosts_heard(committed: Committed) -> Iterator[Committed]:
    """Lets the driver's news of hosts reach `committed`."""
    notification_manager.init()
    notification_manager.register_listener(committed)
    try:
        yield committed
    finally:
        notification_manager.remove_listener(committed)
