"""`hvd_gan.train` with a fault in it: PHASE KIND RANK, then the arguments of train.

The fault happens for real, on one rank, as that rank enters the phase.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

from hvd_gan import train
from hvd_gan.cluster.launcher import stated_rank

# What is called as a phase begins, and how often before the fault.
PHASES = {
    "import": ("hvd_gan.cluster.together:import_tensorflow", 0),
    "start": ("hvd_gan.cluster.world:usable_cores", 0),
    "data": ("hvd_gan.data.opening:open_source", 0),
    "graph": ("hvd_gan.training:make_program", 0),
    "broadcast": ("hvd_gan.training:_start", 0),
    "step": ("hvd_gan.engine.monitors.heartbeat:Heartbeat.after_step", 3),
    "evaluation": ("hvd_gan.engine.inference:Inference.run", 1),
    "checkpoint": ("hvd_gan.engine.checkpoints:Checkpoints.save", 1),
    "end": ("hvd_gan.cluster.lifeline:Lifeline.leave", 0),
}


def fault(kind: str) -> None:
    Path(os.environ["FAULT_AT"]).write_text(str(time.time()))
    if kind == "raise":
        raise RuntimeError("a wire\nwas cut")
    if kind == "exit":
        sys.exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "sleep":
        time.sleep(3600)
    if kind == "memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
        bytearray(2**30)
    raise AssertionError(kind)


def arm(phase: str, kind: str) -> None:
    """Replaces what is called as the phase begins by something that fails."""
    path, before = PHASES[phase]
    module_name, _, name = path.partition(":")
    owner = importlib.import_module(module_name)
    *outer, last = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    original, calls = getattr(owner, last), [0]

    @functools.wraps(original)
    def faulty(*arguments, **options):
        calls[0] += 1
        if calls[0] > before:
            fault(kind)
        return original(*arguments, **options)

    setattr(owner, last, faulty)


def main() -> int:
    phase, kind, rank, *arguments = sys.argv[1:]
    if (stated_rank() or 0) != int(rank):
        return train.main(arguments)
    if phase == "exit":
        atexit.register(fault, kind)
    else:
        # These modules import TensorFlow at their top, which a rank does when it starts.
        early = PHASES[phase][0].startswith("hvd_gan.cluster")
        if early:
            arm(phase, kind)
        else:
            from hvd_gan.cluster import together

            quiet = together.import_tensorflow

            def imported(verbose: bool) -> None:
                quiet(verbose)
                arm(phase, kind)

            together.import_tensorflow = imported
    return train.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
