"""An error on one line: the one that a person can act on."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

from hvd_gan.cluster import elastic, together
from hvd_gan.cluster.together import _what


def test_an_error_of_a_python_function_in_the_graph_is_named_as_itself():
    def broken() -> np.ndarray:
        raise RuntimeError("a wire was cut")

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        value = tf.numpy_function(broken, [], tf.float32)
        try:
            session.run(value)
        except tf.errors.OpError as error:
            assert len(str(error)) > 400
            assert _what(error) == "RuntimeError: a wire was cut"
        else:
            raise AssertionError("nothing was raised")


def test_what_tensorflow_says_at_length_is_cut_and_what_others_say_is_not():
    long = "word " * 400
    assert len(_what(tf.errors.UnknownError(None, None, long))) < 350
    assert _what(ValueError(long)) == f"ValueError: {long.strip()}"


def test_any_error_is_one_printable_line_of_a_length_that_can_be_passed_on():
    assert _what(ValueError("a\x00b\ud800\n\tc")) == "ValueError: a\\x00b\\ud800 c"
    assert _what(ValueError("Gr\u00f6\u00dfe")) == "ValueError: Gr\u00f6\u00dfe"
    assert len(_what(ValueError("x" * 10**6))) < 5000


def test_a_rank_lost_at_the_very_end_of_an_elastic_job_is_done_without(monkeypatch):
    """The others train what is left of it: nothing."""
    worlds = [world(HorovodInternalError("peer is gone")), world(None)]
    jobs = []
    monkeypatch.setattr(together, "import_tensorflow", lambda verbose: None)
    # It would end this process in a minute.
    never = SimpleNamespace(cancel=lambda: None)
    monkeypatch.setattr(together, "end_later", lambda *_, **__: never)
    monkeypatch.setattr(together, "start", lambda stall, elastic: worlds[len(jobs)])
    monkeypatch.setattr(elastic, "hosts_heard", lambda committed: nullcontext(committed))

    def job(world, committed):
        jobs.append(world)
        return 75

    assert together.run_elastic(job) == 75
    assert jobs == worlds


def world(error: Exception | None) -> SimpleNamespace:
    """A world of one rank whose last collective fails, or does not."""

    def agree(flag):
        if error:
            raise error
        return flag

    return SimpleNamespace(
        agree=agree, broadcast=lambda value: value, lifeline=SimpleNamespace(beats=0)
    )


def test_leaving_by_sys_exit_and_interruption_are_said_as_such():
    assert "sys.exit(3)" in _what(SystemExit(3))
    assert _what(KeyboardInterrupt()) == "interrupted"
