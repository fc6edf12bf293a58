"""Changes one variable after the other on the last rank, as little as can be, and tells as lines of
JSON what the watch says."""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf

from hvd_gan.cluster import together
from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import Settings
from hvd_gan.engine.monitors.drift import Drift
from hvd_gan.engine.program import make_program
from tests.models.poisoned import of_all_types

v1 = tf.compat.v1


class Feed:
    """Nothing is drawn from it."""

    def __init__(self) -> None:
        self.tensors = {"image": tf.zeros([1, 32, 32, 3]), "mask": tf.zeros([1, 32, 32, 1])}


def assign(session, variable, value) -> None:
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def nudged(value: np.ndarray) -> np.ndarray:
    """With one bit of one element flipped."""
    changed = np.array(value)
    changed.reshape(-1).view(np.uint8)[0] ^= 1
    return changed


def swapped(value: np.ndarray) -> np.ndarray:
    """With its first and its last element in each other's place."""
    changed = np.array(value)
    flat = changed.reshape(-1)
    flat[0], flat[-1] = value.reshape(-1)[-1], value.reshape(-1)[0]
    return changed


def job(world) -> int:
    settings = Settings.model_validate({"stages": {"completion": {"steps": 1}}})
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        program = make_program(of_all_types, Feed(), {}, settings)
        drift = Drift(program, session, world, 100, 1000)
        session.run(program.initialize)
        session.run(program.broadcast)
        drift.check(0)
        for variable in program.variables:
            value = session.run(variable)
            for change in (nudged, swapped):
                other = change(value)
                if other.tobytes() == value.tobytes():
                    continue
                if world.rank == world.size - 1:
                    assign(session, variable, other)
                said = ""
                try:
                    drift.check(7)
                except AgreedError as error:
                    said = str(error)
                assign(session, variable, value)
                drift.check(8)
                # Every rank reaches this: all have gone the same way.
                heard = world.gather(said)
                if world.is_root:
                    name = [variable.op.name, change.__name__]
                    print("\nCASE " + json.dumps([*name, heard]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(together.run(job))
