"""Trains, on all ranks, one small case after another with a fault in one pass of one rank; tells
as a line of JSON each what every rank did, and whether it has the bits of a run that never made
that step."""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf

from hvd_gan.cluster import together
from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import Settings
from hvd_gan.engine.fingerprints import fingerprints
from hvd_gan.engine.monitors.monitor import Monitor
from hvd_gan.engine.numerics import Skip
from hvd_gan.engine.program import make_program
from hvd_gan.engine.trainer import train
from tests.models.poisoned import Poison, build

v1 = tf.compat.v1
IMAGES = 2
FAULT = (7, 7)


class Feed:
    """This rank's images, a function of (rank, pass); `passes` says which come, and whether each
    has the fault."""

    def __init__(self, rank: int, passes: list[tuple[int, bool]]) -> None:
        self._rank = rank
        self._passes = iter(passes)
        kinds = (tf.float32, tf.float32, tf.int32)
        image, mask, seed = tf.numpy_function(self._draw, [], kinds)
        self.tensors = {
            "image": tf.ensure_shape(image, [IMAGES, 32, 32, 3]),
            "mask": tf.ensure_shape(mask, [IMAGES, 32, 32, 1]),
            "noise_seed": tf.ensure_shape(seed, [IMAGES, 2]),
        }

    def seek(self, session, position) -> None:
        """Starts at the beginning."""

    def error(self) -> None:
        """Nothing goes wrong."""

    def _draw(self):
        number, fault = next(self._passes)
        rng = np.random.default_rng([self._rank, number])
        seeds = np.zeros([IMAGES, 2], np.int32)
        if fault:
            seeds[1] = FAULT
        image = rng.uniform(size=[IMAGES, 32, 32, 3]).astype(np.float32)
        return image, rng.integers(0, 2, [IMAGES, 32, 32, 1]).astype(np.float32), seeds


class Steps(Monitor):
    """The steps that were skipped."""

    def __init__(self) -> None:
        self.skipped: list[int] = []

    def after_step(self, report) -> None:
        self.skipped += [report.step] * report.skipped


def run(world, case: dict, passes: list[tuple[int, bool]], steps: int):
    settings = Settings.model_validate(
        {
            "optimizer": {"name": "adam", "learning_rate": 0.01, **case.get("optimizer", {})},
            "deterministic": True,
            "numerics": {"not_finite": "skip"},
            **case["settings"],
            "stages": {"a": {**case["stage"], "steps": steps}},
        }
    )
    said: list[str] = []
    seen = Steps()
    with tf.Graph().as_default() as graph:
        feed = Feed(world.rank, passes)
        model = Poison.model_validate({"seeds": [FAULT], **case["model"]})
        program = make_program(build, feed, model, settings)
        one_thread = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.Session(graph=graph, config=one_thread) as session:
            session.run(program.initialize)
            session.run(program.broadcast)
            policy = Skip(program, session, settings, said.append)
            try:
                train(program, session, feed, settings, [seen], policy)
            except AgreedError as error:
                said.append(str(error))
            values = program.read(session)
    bits = {k: v for k, v in fingerprints(values).items() if not k.startswith("hvd_gan/steps")}
    bits.pop("hvd_gan/visit_steps")
    return {"skipped": seen.skipped, "said": said, "bits": bits}


def job(world) -> int:
    for case in json.loads(sys.argv[1]):
        count = case["settings"].get("backward_passes_per_step", 1)
        # Four steps; the second has the fault, in its first pass.
        fault = world.rank == case["rank"]
        passes = [(number, number == count and fault) for number in range(4 * count)]
        found = run(world, case, passes, 4)
        clean = [entry for entry in passes if not count <= entry[0] < 2 * count]
        oracle = run(world, case, clean, 3)
        mine = {
            "skipped": found["skipped"],
            "said": found["said"],
            "as_if_never": found["bits"] == oracle["bits"],
            "bits": found["bits"],
        }
        # Every rank reaches this: none leaves a case by itself.
        ranks = world.gather(mine)
        same = all(rank.pop("bits") == mine["bits"] for rank in ranks)
        if world.is_root:
            print("\nCASE " + json.dumps({"ranks": ranks, "same": same}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(together.run(job))
