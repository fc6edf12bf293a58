"""Files are written whole or not at all, and a failure is told in the file system's words."""

from __future__ import annotations

import errno
import os

import pytest
import tensorflow as tf

from hvd_gan.engine.writing import WriteError, answer, append, write_whole
from tests.disks import small_disk


def test_a_file_is_replaced_whole_and_its_folder_made(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for content in (b"one", b"another"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["a.txt"]


def test_on_a_full_disk_the_old_content_stays_and_nothing_is_left_over(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        path = disk / "a.txt"
        write_whole(path, b"old")
        with pytest.raises(WriteError, match=r"a\.txt could not be written in .*: No space left"):
            write_whole(path, b"x" * 100_000)
        assert path.read_bytes() == b"old"
        assert os.listdir(disk) == ["a.txt"]


def test_what_cannot_be_appended_whole_is_not_appended_at_all(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        path = disk / "lines"
        append(path, b"first\n")
        with pytest.raises(WriteError, match="No space left on device"):
            append(path, b"x" * 100_000)
        append(path, b"second\n")
        assert path.read_bytes() == b"first\nsecond\n"


def test_a_folder_that_is_gone_is_named(tmp_path):
    with pytest.raises(WriteError, match=f"lines could not be written in {tmp_path}/gone: No such"):
        append(tmp_path / "gone" / "lines", b"x")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"),
        (
            tf.errors.ResourceExhaustedError(
                None,
                None,
                "Detected at node\n/run/x.tempstate1; No space left on device\n\t [[{}]]",
            ),
            "No space left on device",
        ),
        (
            tf.errors.UnknownError(None, None, "runs/a; b/x; Input/output error"),
            "Input/output error",
        ),
        (ValueError("a folder\n is gone"), "a folder is gone"),
    ],
)
def test_the_answer_is_the_same_from_python_and_from_tensorflow(error, expected):
    assert answer(error) == expected
