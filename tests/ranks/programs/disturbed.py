"""Trains like `hvd_gan.train` while something happens to rank 0's disk, or to rank 0.

The first argument says what and when: `full@4,free@6`, `readonly@4,writable@6`, `lost@4` (at the
end of that step), `kill@4:checkpoints.seal` (when step 4 is being saved and that function of the
engine is called).
"""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from hvd_gan import train, training, watching
from hvd_gan.engine import checkpoints
from hvd_gan.engine.monitors.monitor import Monitor

PLAN = [event.split("@") for event in sys.argv.pop(1).split(",")]
RUN = Path(sys.argv[sys.argv.index("--run") + 1]).absolute()
FILLER = RUN.parent / "filler"


def full() -> None:
    with FILLER.open("wb", buffering=0) as file:
        for block in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * block):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC


def free() -> None:
    FILLER.unlink()


def readonly() -> None:
    """What a job opens from now on lies on a mount that is read-only, over the other one."""
    subprocess.run(["mount", "--bind", str(RUN), str(RUN)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(RUN)], check=True)


def writable() -> None:
    subprocess.run(["umount", str(RUN)], check=True)


def lost() -> None:
    shutil.rmtree(RUN)


class Disturb(Monitor):
    """Before the writers, on rank 0: what happens at the end of a step meets that step's save."""

    def after_step(self, report) -> None:
        for what, when in PLAN:
            if what != "kill" and int(when) == report.step:
                globals()[what]()


def make_monitors(run):
    monitors = watching.make_monitors(run)
    return [Disturb(), *monitors] if run.job.world.is_root else monitors


def die_in_the_midst_of_saving(step: str, place: str) -> None:
    """Kills this process when a function is called while a step is saved."""
    where, name = place.split(".")
    module = importlib.import_module(f"hvd_gan.engine.{where}")
    original, save = getattr(module, name), checkpoints.Checkpoints.save
    saving = []

    def noted(self, session, state):
        saving.append(state.step)
        return save(self, session, state)

    def deadly(*arguments, **named):
        if saving and saving[-1] == int(step):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    checkpoints.Checkpoints.save = noted
    setattr(module, name, deadly)


training.make_monitors = make_monitors
for what, when in PLAN:
    if what == "kill":
        die_in_the_midst_of_saving(*when.split(":"))
sys.exit(train.main())
