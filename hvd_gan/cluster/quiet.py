"""Keeps TensorFlow's start-up chatter off the screen."""

from __future__ import annotations

import importlib
import os


def import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow and Horovod; quietly, unless `verbose`.

    What it prints goes to file descriptor 2, some of it before `TF_CPP_MIN_LOG_LEVEL` is read, so
    the descriptor itself is turned away for as long as the import takes.
    """
    if verbose:
        importlib.import_module("horovod.tensorflow")
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        importlib.import_module("horovod.tensorflow")
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
