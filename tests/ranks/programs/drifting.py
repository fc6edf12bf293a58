"""Changes one variable after the other on the last rank, as little as can be, and tells as lines of
JSON what the watch says."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from hvd_gan.cluster import together
from hvd_gan.cluster.world import AgreedError
from hvd_gan.engine.monitors.drift import Drift

v1 = tf.compat.v1
TYPES = (
    *(tf.float32, tf.bfloat16, tf.float16, tf.float64, tf.complex64, tf.complex128),
    *(tf.int64, tf.int32, tf.uint8, tf.bool),
)


def make_variables() -> None:
    """One of each type, with a NaN where there is one, which is the same on all ranks."""
    for dtype in TYPES:
        start = tf.cast([[0.0, 1.0], [1.0, 2.0]], dtype)
        if dtype.is_floating:
            start = tf.concat([start, tf.cast([[float("nan"), 3.0]], dtype)], 0)
        v1.get_variable(dtype.name, initializer=start, trainable=False, use_resource=True)
    v1.get_variable("reference", initializer=[1.0, 2.0], trainable=False, use_resource=False)
    v1.get_variable("scalar", initializer=1.0)
    v1.get_variable("convolution", initializer=tf.reshape(tf.range(81.0), [3, 3, 3, 3]))


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
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        make_variables()
        program = SimpleNamespace(graph=graph, variables=v1.global_variables())
        drift = Drift(program, session, world, 100, 1000)
        session.run(v1.global_variables_initializer())
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
