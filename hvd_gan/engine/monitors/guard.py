"""What becomes of a failed write on rank 0: the job stops, or says so and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.stages import Visit
from hvd_gan.engine.writing import WriteError


class Guard:
    """One policy for all that is written while training goes on.

    For the message, `standing` tells which checkpoint stands, and `cure` what a person can do.
    """

    def __init__(
        self,
        keep_going: bool,
        say: Callable[[str], None],
        standing: Callable[[], str],
        cure: Callable[[], str],
    ) -> None:
        self._keep_going = keep_going
        self._say = say
        self._standing = standing
        self._cure = cure
        self._said: set[str] = set()

    @contextmanager
    def __call__(self, has_to: bool = False) -> Iterator[None]:
        """Guards what is written inside; `has_to` if there is no going on without it.

        Raises WriteError with what stands and the cure, or says so, once for the same failure.
        """
        try:
            yield
        except WriteError as error:
            if has_to or not self._keep_going:
                raise WriteError(f"{error}; {self._standing()}. {self._cure()}") from error
            if str(error) not in self._said:
                self._said.add(str(error))
                self._say(
                    f"warning: {error}; {self._standing()}. Training goes on and tries again at "
                    "the next occasion"
                )

    def forget(self) -> None:
        """From now on the same failure is said again."""
        self._said.clear()


class Guarded(Monitor):
    """A monitor that writes, with a guard around it."""

    def __init__(self, monitor: Monitor, guard: Guard) -> None:
        self._monitor = monitor
        self._guard = guard

    def before_stage(self, visit: Visit, done: int) -> None:
        self._guard.forget()
        with self._guard():
            self._monitor.before_stage(visit, done)

    def after_step(self, report: Report) -> None:
        with self._guard():
            self._monitor.after_step(report)

    def after_stage(self, report: Report) -> None:
        with self._guard():
            self._monitor.after_stage(report)

    def rolled_back(self, step: int) -> None:
        with self._guard():
            self._monitor.rolled_back(step)

    def close(self) -> None:
        self._monitor.close()
