"""The real pipeline: batches that depend on positions alone, in graphs that are all the same."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.pipeline import batches
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import open_source


def run(source, settings, *, steps, start=0, batch=4, rank=0, ranks=1, seed=1, **options):
    """`steps` batches of one rank, a dict of arrays each, and the Batches that made them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = batches(
            source,
            settings,
            seed=seed,
            batch=batch,
            rank=rank,
            ranks=ranks,
            **{"threads": 2, **options},
        )
        made.seek(session, start)
        return [session.run(made.tensors) for _ in range(steps)], made


def joined(found, key):
    return np.concatenate([values[key] for values in found])


def test_tensors_have_the_promised_types_and_static_shapes(numbered, tiny):
    with tf.Graph().as_default():
        made = batches(numbered(9), tiny, seed=1, batch=4, rank=0, ranks=1, threads=1)
    shapes = {key: (tensor.dtype, tensor.shape) for key, tensor in made.tensors.items()}
    assert shapes == {
        "image": (tf.float32, [4, 8, 8, 3]),
        "mask": (tf.float32, [4, 8, 8, 1]),
        "box": (tf.int32, [4, 4]),
        "real_box": (tf.int32, [4, 4]),
        "noise_seed": (tf.int32, [4, 2]),
        "mean_color": (tf.float32, [3]),
    }


def test_batches_are_the_samples_at_their_positions(tiny):
    settings = DataSettings(source="photos", short_side=(64, 100), mean_color=(0.1, 0.2, 0.3))
    source = open_source(settings, "train")
    found, _ = run(source, settings, steps=3, start=8)
    sampler = Sampler(source, settings, seed=1)
    for k in range(12):
        image, mask, box, real_box, noise_seed = sampler.sample(8 + k)
        # In [0, 1]: whole multiples of 1/255, as near as float32 has them.
        np.testing.assert_allclose(joined(found, "image")[k], image / 255.0, atol=1e-7)
        assert (joined(found, "mask")[k] == mask).all()
        assert (joined(found, "box")[k] == box).all()
        assert (joined(found, "real_box")[k] == real_box).all()
        assert (joined(found, "noise_seed")[k] == noise_seed).all()
    np.testing.assert_allclose(found[0]["mean_color"], (0.1, 0.2, 0.3), rtol=1e-6)


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_see_together_exactly_what_one_rank_sees(numbered, tiny, ranks, held_out):
    source = numbered(17, broken={2, 5})
    alone, _ = run(source, tiny, steps=5, batch=4 * ranks, held_out=held_out)
    shared = [
        run(source, tiny, steps=5, rank=rank, ranks=ranks, held_out=held_out, threads=rank + 1)[0]
        for rank in range(ranks)
    ]
    for key in ("image", "mask", "box", "real_box", "noise_seed"):
        expected = joined(alone, key)
        for rank in range(ranks):
            assert joined(shared[rank], key).tobytes() == expected[rank::ranks].tobytes()


def test_seeking_is_the_same_as_running_there(numbered, tiny):
    source = numbered(10)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = batches(source, tiny, seed=3, batch=4, rank=1, ranks=2, threads=2)
        made.seek(session, 0)
        through = [session.run(made.tensors) for _ in range(6)]
        made.seek(session, 24)
        jumped = [session.run(made.tensors) for _ in range(3)]
        made.seek(session, 0)
        again = [session.run(made.tensors) for _ in range(6)]
    for key in ("image", "mask", "box", "real_box", "noise_seed"):
        assert joined(jumped, key).tobytes() == joined(through[3:], key).tobytes()
        assert joined(again, key).tobytes() == joined(through, key).tobytes()


def test_a_position_beyond_32_bits(numbered, tiny):
    found, _ = run(numbered(10), tiny, steps=1, start=2**40)
    expected = Sampler(numbered(10), tiny, seed=1).sample(2**40)
    assert (found[0]["box"][0] == expected.box).all()


def test_every_epoch_shows_each_image_once(numbered, tiny, which):
    found, _ = run(numbered(300), tiny, steps=2, batch=300)
    orders = [which(values["image"]) for values in found]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(300))
    assert orders[0] != orders[1]


def test_held_out_images_come_in_their_own_order_and_never_run_out(numbered, tiny, which):
    found, _ = run(numbered(3), tiny, steps=2, held_out=True)
    assert which(joined(found, "image")) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_unreadable_images_are_reported_by_the_rank_that_met_them(numbered, tiny, which):
    found, made = run(numbered(8, broken={6}), tiny, steps=4)
    assert 6 not in which(joined(found, "image"))
    assert made.skipped(before=4) in ({}, {"number 6": "made to be broken"})
    assert made.skipped(before=100) == {"number 6": "made to be broken"}
    assert made.error() is None


def test_the_original_error_is_kept_for_the_person(numbered, tiny):
    source = numbered(4, broken=range(4))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = batches(source, tiny, seed=1, batch=2, rank=0, ranks=1, threads=1)
        made.seek(session, 0)
        with pytest.raises(tf.errors.OpError):
            session.run(made.tensors)
        assert isinstance(made.error(), ConfigError)
        assert "none of its 4 images can be read" in str(made.error())
        source.broken = ()
        made.seek(session, 0)
        assert made.error() is None
        session.run(made.tensors)


def test_a_users_bug_is_kept_as_it_was_raised(numbered, tiny):
    source = numbered(4)
    source.read = lambda index: {}[index]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = batches(source, tiny, seed=1, batch=2, rank=0, ranks=1, threads=1)
        made.seek(session, 0)
        with pytest.raises(tf.errors.OpError):
            session.run(made.tensors)
    assert isinstance(made.error(), KeyError)


def test_no_more_threads_read_than_were_given(numbered, tiny):
    source, most, now, lock = numbered(10), [0], [0], threading.Lock()

    def read(_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return np.zeros((8, 8, 3), np.uint8)

    source.read = read
    for threads in (1, 3):
        most[0] = 0
        run(source, tiny, steps=10, threads=threads)
        assert 1 <= most[0] <= threads


def test_mistakes_are_refused_before_the_graph_is_built(numbered, tiny):
    unset = tiny.model_copy(update={"mean_color": None})
    with pytest.raises(ConfigError, match=r"data\.mean_color"):
        run(numbered(4), unset, steps=1)
    with pytest.raises(ConfigError, match="no images"):
        run(numbered(0), tiny, steps=1)
    with pytest.raises(AssertionError):
        run(numbered(4), tiny, steps=1, start=6)


GRAPH = """
import hashlib, sys
import tensorflow as tf
from hvd_gan.config import DataSettings
from hvd_gan.data.pipeline import batches
from hvd_gan.data.source import open_source

settings = DataSettings(source="photos", mean_color=(0.5, 0.5, 0.5))
with tf.Graph().as_default() as graph:
    for split in ("train", "held_out"):
        batches(open_source(settings, split), settings, seed=1, batch=4, rank=int(sys.argv[1]),
                ranks=2, held_out=split == "held_out", threads=1)
text = graph.as_graph_def().SerializeToString(deterministic=True)
print(len(text), hashlib.sha256(text).hexdigest())
"""


def test_ranks_build_the_same_graph():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", GRAPH, rank], stdout=subprocess.PIPE, env=environment
        )
        for rank in "01"
    ]
    outputs = [process.communicate(timeout=120)[0] for process in ranks]
    assert outputs[0] == outputs[1] and len(outputs[0].split()) == 2
