"""An error on one line: the one that a person can act on."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

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


def test_leaving_by_sys_exit_and_interruption_are_said_as_such():
    assert "sys.exit(3)" in _what(SystemExit(3))
    assert _what(KeyboardInterrupt()) == "interrupted"
