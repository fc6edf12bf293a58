"""Checkpoints are whole or not there, and only the newest are kept."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.engine import checkpoint_files
from hvd_gan.engine.checkpoint_files import State, checkpoints_in, verified
from hvd_gan.engine.checkpoints import Checkpoints, read_values
from hvd_gan.engine.writing import WriteError
from tests.disks import small_disk

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


def at(step: int) -> State:
    return State(
        step=step, stage="joint", stage_step=3, schedule=(("joint", 9),), ranks=2, images="i"
    )


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_read_back_bit_by_bit(session, tmp_path):
    path = make(tmp_path).save(session, at(7))
    found = read_values(path)
    assert found["count"] == 2**40 and found["count"].dtype == np.int64
    np.testing.assert_array_equal(found["a/weights"], np.arange(6).reshape(2, 3))
    assert verified(path) == at(7)


def test_only_the_newest_are_kept_in_the_order_of_their_steps(session, tmp_path):
    checkpoints = make(tmp_path)
    for step in (5, 90, 99999999, 100000000):
        checkpoints.save(session, at(step))
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-99999999", "step-100000000"]
    assert len(names(tmp_path)) == 2


def test_a_half_written_one_is_not_found_and_is_replaced(session, tmp_path):
    partial = tmp_path / "partial-00000002"
    partial.mkdir()
    (partial / "rubbish").write_text("half")
    assert checkpoints_in(tmp_path) == []
    make(tmp_path).save(session, at(3))
    assert names(tmp_path) == ["step-00000003"]


def test_saving_a_step_twice_keeps_a_good_one_and_replaces_a_damaged_one(session, tmp_path):
    checkpoints = make(tmp_path)
    path = checkpoints.save(session, at(3))
    before = (path / "variables.index").stat().st_ino
    checkpoints.save(session, at(3))
    assert (path / "variables.index").stat().st_ino == before
    (path / "variables.index").write_bytes(b"")
    checkpoints.save(session, at(3))
    assert verified(path) == at(3)
    assert names(tmp_path) == ["damaged-00000003", "step-00000003"]


def test_after_a_return_to_an_older_one_the_steps_after_it_are_saved_anew(session, tmp_path):
    checkpoints, weights = make(tmp_path), v1.global_variables()[0]
    first = checkpoints.save(session, at(1))
    second = checkpoints.save(session, at(2))
    checkpoints.restore(session, first)
    session.run(weights.assign(weights + 1))
    checkpoints.save(session, at(2))
    np.testing.assert_array_equal(read_values(second)["a/weights"], np.arange(1, 7).reshape(2, 3))
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_everything_is_on_the_disk_before_the_rename_and_the_old_one_goes_after_it(
    session, tmp_path, monkeypatch
):
    make(tmp_path, keep=1).save(session, at(1))
    seen = []

    def fsync(descriptor, fsync=os.fsync):
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        seen.append(names(tmp_path))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    make(tmp_path, keep=1).save(session, at(2))
    synced, there = seen[::2], seen[1::2]
    files = ["state.json", "variables.data-00000-of-00001", "variables.index", "SHA256SUMS"]
    assert synced == [*files, "partial-00000002", tmp_path.name]
    assert there[:-1] == [["partial-00000002", "step-00000001"]] * 5
    assert there[-1] == ["step-00000001", "step-00000002"]
    assert names(tmp_path) == ["step-00000002"]


def test_a_full_disk_is_named_and_leaves_what_was_there(session, tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        checkpoints = make(disk, keep=100)
        with pytest.raises(WriteError) as raised:
            for step in range(1, 100):
                checkpoints.save(session, at(step))
        last = int(re.search(r"the checkpoint of step (\d+) could not", str(raised.value))[1]) - 1
        assert f"in {disk}: No space left on device" in str(raised.value)
        assert names(disk) == [f"step-{step:08d}" for step in range(1, last + 1)]
        assert all(verified(path) for path in checkpoints_in(disk))
        assert checkpoints.standing() == f"the last good checkpoint, of step {last}, stands intact"


@pytest.mark.parametrize("where", ["variables", "state", "sums"])
def test_a_full_disk_at_any_file_of_a_checkpoint_leaves_nothing_over(session, tmp_path, where):
    with small_disk(tmp_path / "disk", "64k") as disk:
        checkpoints = make(disk)
        checkpoints.save(session, at(1))
        free = os.statvfs(disk)
        # tmpfs counts in pages: variables are two files of a page, state.json and the sums one.
        room = {"variables": 1, "state": 2, "sums": 3}[where]
        (disk / "filler").write_bytes(b"x" * (free.f_bfree - room) * free.f_bsize)
        with pytest.raises(WriteError, match="No space left on device"):
            checkpoints.save(session, at(2))
        assert names(disk) == ["filler", "step-00000001"]
        (disk / "filler").unlink()
        checkpoints.save(session, at(2))
        assert names(disk) == ["step-00000001", "step-00000002"]


def test_a_folder_that_cannot_be_written_to_is_named(session, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"step 1 could not be written in .*: Not a directory"):
        make(tmp_path / "file" / "checkpoints").save(session, at(1))


def test_the_newest_good_one_is_restored_and_damaged_ones_are_set_aside(session, tmp_path):
    checkpoints = make(tmp_path)
    for step in (1, 2):
        session.run(v1.global_variables()[1].assign(step))
        checkpoints.save(session, at(step))
    (tmp_path / "step-00000002" / "state.json").write_text("")
    newest = checkpoints.newest_good()
    assert newest.checkpoint == tmp_path / "step-00000001" and newest.state == at(1)
    assert newest.reports[0].startswith("step-00000002 is damaged: state.json is not what was")
    assert names(tmp_path) == ["damaged-00000002", "step-00000001"]
    checkpoints.restore(session, newest.checkpoint)
    assert session.run(v1.global_variables()[1]) == 1


def test_without_any_checkpoint_nothing_stands(session, tmp_path):
    assert make(tmp_path).newest_good() == checkpoint_files.Newest()
    assert make(tmp_path).standing() == "there is no good checkpoint"


def test_a_checkpoint_of_another_graph_is_refused(session, tmp_path):
    path = make(tmp_path).save(session, at(1))
    with tf.Graph().as_default(), v1.Session() as other:
        v1.get_variable("b/other", initializer=1.0)
        with pytest.raises(ValueError, match="is whole, but does not fit this model"):
            make(tmp_path).restore(other, path)
