"""Batches for one rank, as tensors of the current graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import Source

END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Batches:
    """The next batch of one rank, and the means to say where it starts.

    `tensors`, of static shapes, new with every `session.run`:
      image       float32 [batch, size, size, 3], RGB in [0, 1]
      mask        float32 [batch, size, size, 1], 1 inside the hole
      box         int32 [batch, 4], the hole's top, left, height, width in pixels
      real_box    int32 [batch, 4], another random place of that kind
      noise_seed  int32 [batch, 2], for each image's own random numbers in the model
      mean_color  float32 [3], RGB in [0, 1]
    `seek` has to be called before the first run.
    """

    tensors: dict[str, tf.Tensor]
    batch: int
    rank: int
    ranks: int
    initializer: tf.Operation
    start_tensor: tf.Tensor
    rank_tensor: tf.Tensor
    feed: _Feed

    def seek(self, session: tf.compat.v1.Session, position: int) -> None:
        """Goes to a position of the run, counted over all ranks: a multiple of batch x ranks."""
        assert position >= 0 and position % (self.batch * self.ranks) == 0, position
        self.feed.error = None
        session.run(self.initializer, {self.start_tensor: position, self.rank_tensor: self.rank})

    def skipped(self, before: int) -> dict[str, str]:
        """Why images could not be read, by name: those that this rank met below a position."""
        return self.feed.sampler.skipped(before)

    def error(self) -> Exception | None:
        """The exception behind a `tf.errors.OpError` of `session.run`, if it came from the data.

        TensorFlow keeps only its text, deep in its own. A trainer catches OpError, and raises
        this one instead if there is one.
        """
        return self.feed.error


class _Feed:
    """What TensorFlow calls for each position: the sampler, and the first error that it had."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.error: Exception | None = None

    def __call__(self, position: Any) -> tuple[Any, ...]:
        try:
            return tuple(self.sampler.sample(int(position)))
        except Exception as error:
            self.error = self.error or error
            raise


def batches(
    source: Source,
    settings: DataSettings,
    *,
    seed: int,
    batch: int,
    rank: int,
    ranks: int,
    held_out: bool = False,
    threads: int,
) -> Batches:
    """Builds the input pipeline of one rank in the current default graph.

    Rank r of n takes positions start + r, start + r + n, ... Start and rank are fed, so the graph
    is the same on all ranks. `batch` is this rank's; images are prepared by `threads` threads.
    Raises ConfigError if the source is empty or `settings.mean_color` is not set.
    """
    if settings.mean_color is None:
        raise ConfigError("data.mean_color: not set; measure it with survey.mean_color")
    assert 0 <= rank < ranks and batch > 0 and threads > 0
    feed = _Feed(Sampler(source, settings, seed=seed, held_out=held_out))
    with tf.name_scope("held_out_data" if held_out else "data"):
        with tf.device("/cpu:0"):
            start_tensor = tf.compat.v1.placeholder(tf.int64, [], "start")
            rank_tensor = tf.compat.v1.placeholder(tf.int64, [], "rank")
            dataset = _dataset(feed, start_tensor + rank_tensor, settings, batch, ranks, threads)
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            image, mask, box, real_box, noise_seed = iterator.get_next()
        # Images go to the device as bytes, a quarter of their size as floats.
        image = tf.divide(tf.cast(image, tf.float32), 255.0, name="image")
        mean = tf.constant(settings.mean_color, tf.float32, name="mean_color")
    return Batches(
        tensors={
            "image": image,
            "mask": mask,
            "box": box,
            "real_box": real_box,
            "noise_seed": noise_seed,
            "mean_color": mean,
        },
        batch=batch,
        rank=rank,
        ranks=ranks,
        initializer=iterator.initializer,
        start_tensor=start_tensor,
        rank_tensor=rank_tensor,
        feed=feed,
    )


def _dataset(
    feed: _Feed, first: tf.Tensor, settings: DataSettings, batch: int, ranks: int, threads: int
) -> tf.data.Dataset:
    size = settings.image_size

    kinds = (tf.uint8, tf.float32, tf.int32, tf.int32, tf.int32)
    shapes = ([size, size, 3], [size, size, 1], [4], [4], [2])

    # AutoGraph has nothing to convert here, and would leave a file in /tmp when a rank is killed.
    @tf.autograph.experimental.do_not_convert
    def load(position: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors = tf.numpy_function(feed, [position], kinds)
        return tuple(map(tf.ensure_shape, tensors, shapes))

    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    dataset = tf.data.Dataset.range(first, END, ranks)
    dataset = dataset.map(load, num_parallel_calls=threads, deterministic=True)
    return dataset.batch(batch, drop_remainder=True).prefetch(2).with_options(options)
