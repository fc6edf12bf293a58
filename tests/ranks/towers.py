"""The oracle: what users had on one machine, towers with averaged gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from hvd_gan.config import DataSettings
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import open_source
from tests.models import tiny

v1 = tf.compat.v1
MOVES = {
    "completion": [("completion", "generator/")],
    "discriminator": [("discriminator", "discriminator/")],
    "joint": [("discriminator", "discriminator/"), ("joint", "generator/")],
}


def train_towers(
    towers: int,
    optimizer,
    schedule: dict[str, int],
    data: DataSettings,
    batch: int,
    skipped: Sequence[int] = (),
):
    """Trains the tiny model's stages on a batch split over towers. Returns its weights by name.

    `skipped` are numbers of batches, from 1, that are drawn and not trained on.
    """
    sampler = Sampler(open_source(data, "train"), data, seed=1)
    with tf.Graph().as_default():
        feeds, tower_losses = [], []
        for tower in range(towers):
            with tf.name_scope(f"Tower_{tower}"):
                image = v1.placeholder(tf.float32, [batch // towers, 32, 32, 3])
                mask = v1.placeholder(tf.float32, [batch // towers, 32, 32, 1])
                tower_losses.append(tiny.losses({"image": image, "mask": mask}, alpha=0.1))
                feeds.append((image, mask))
        steps = {stage: _step(MOVES[stage], tower_losses, optimizer) for stage in schedule}
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            position = 0
            for stage, count in schedule.items():
                for _ in range(count):
                    samples = [sampler.sample(position + offset) for offset in range(batch)]
                    position += batch
                    if position // batch in skipped:
                        continue
                    feed = {}
                    for tower, (image, mask) in enumerate(feeds):
                        mine = samples[tower::towers]
                        feed[image] = np.stack([s.image for s in mine]).astype(np.float32) / 255
                        feed[mask] = np.stack([s.mask for s in mine])
                    session.run(steps[stage], feed)
            return session.run({v.op.name: v for v in v1.trainable_variables()})


def _step(moves, tower_losses, make_optimizer):
    pairs = []
    for loss, scope in moves:
        optimizer = make_optimizer()
        variables = [v for v in v1.trainable_variables() if v.op.name.startswith(scope)]
        each = [optimizer.compute_gradients(losses[loss], variables) for losses in tower_losses]
        averaged = [
            (tf.add_n([gradient for gradient, _ in entry]) / len(entry), entry[0][1])
            for entry in zip(*each, strict=True)
        ]
        pairs.append((optimizer, averaged))
    with tf.control_dependencies([gradient for _, averaged in pairs for gradient, _ in averaged]):
        return tf.group(*[optimizer.apply_gradients(averaged) for optimizer, averaged in pairs])
