"""The standard streams: TensorFlow's start-up chatter kept off them, and closed ones opened."""

from __future__ import annotations

import importlib
import os
import sys

from hvd_gan.cluster.voice import stderr_turned_away


def open_closed_streams() -> None:
    """Gives this process a stdin, stdout and stderr that lead nowhere, where it has none: `>&-`."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow and Horovod; quietly, unless `verbose`.

    What it prints goes to file descriptor 2, some of it before `TF_CPP_MIN_LOG_LEVEL` is read, so
    the descriptor itself is turned away for as long as the import takes.
    """
    if verbose:
        importlib.import_module("horovod.tensorflow")
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with stderr_turned_away():
        importlib.import_module("horovod.tensorflow")
