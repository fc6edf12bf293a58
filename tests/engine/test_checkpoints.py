"""Checkpoints are whole or not there, and only the newest are kept."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.engine.checkpoints import Checkpoints, checkpoints_in, read_state, read_values

v1 = tf.compat.v1


@pytest.fixture
def session():
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("a/weights", initializer=np.arange(6, dtype=np.float32).reshape(2, 3))
        v1.get_variable("count", initializer=np.int64(2**40), trainable=False)
        session.run(v1.global_variables_initializer())
        yield session


def make(folder, keep: int = 2) -> Checkpoints:
    return Checkpoints(folder, SimpleNamespace(variables=v1.global_variables()), keep)


def test_what_was_saved_is_read_back_bit_by_bit(session, tmp_path):
    path = make(tmp_path).save(session, 7, {"step": 7})
    found = read_values(path)
    assert found["count"] == 2**40 and found["count"].dtype == np.int64
    np.testing.assert_array_equal(found["a/weights"], np.arange(6).reshape(2, 3))
    assert read_state(path) == {"step": 7}


def test_only_the_newest_are_kept_in_the_order_of_their_steps(session, tmp_path):
    checkpoints = make(tmp_path)
    for step in (5, 90, 1000):
        checkpoints.save(session, step, {})
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000090", "step-00001000"]


def test_a_half_written_one_is_not_found_and_is_replaced(session, tmp_path):
    partial = tmp_path / "partial-00000002"
    partial.mkdir()
    (partial / "rubbish").write_text("half")
    assert checkpoints_in(tmp_path) == []
    make(tmp_path).save(session, 3, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_a_checkpoint_of_another_graph_is_refused(session, tmp_path):
    path = make(tmp_path).save(session, 1, {})
    with tf.Graph().as_default(), v1.Session() as other:
        v1.get_variable("b/other", initializer=1.0)
        with pytest.raises(ValueError, match="is damaged, or does not fit this model"):
            make(tmp_path).restore(other, path)
