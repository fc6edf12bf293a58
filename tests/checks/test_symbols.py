"""The loader's words are read right. The symbols are those of real builds."""

from __future__ import annotations

import shutil

import pytest

from hvd_gan.checks.symbols import missing_library, missing_symbol, readable, whose

# Horovod built for TensorFlow 2.15.1, loaded by 2.21.0; and the other way around.
OLD = "_ZN10tensorflow15TensorShapeBaseINS_11TensorShapeEEC1EN4absl12lts_202301254SpanIKlEE"
NEW = "_ZN4absl12lts_202508145Mutex13unlock_sharedEv"


def test_the_symbol_is_found_in_the_message():
    assert missing_symbol(f"/venv/mpi_lib.so: undefined symbol: {OLD}") == OLD
    assert missing_symbol("libmpi.so.40: cannot open shared object file") == ""


def test_the_library_is_found_in_the_message():
    message = "libmpi.so.40: cannot open shared object file: No such file or directory"
    assert missing_library(message) == "libmpi.so.40"
    assert missing_library(f"undefined symbol: {OLD}") == ""


@pytest.mark.parametrize("tool", [True, False])
def test_a_symbol_is_told_as_its_programmer_wrote_it(tool, monkeypatch):
    if not tool:
        monkeypatch.setattr(shutil, "which", lambda name: None)
    assert readable(NEW).startswith("absl::lts_20250814::Mutex::unlock_shared")
    assert readable(OLD).startswith("tensorflow::TensorShapeBase")


@pytest.mark.parametrize(
    ("symbol", "owner"),
    [
        (OLD, "another TensorFlow's, with Abseil 20230125"),
        (NEW, "another TensorFlow's, with Abseil 20250814"),
        ("ompi_mpi_comm_world", "another MPI's"),
        ("_ZN15stream_executor3gpu9GpuStreamE", "a GPU build of TensorFlow's"),
        ("ncclCommInitRank", "a GPU build of TensorFlow's"),
        ("something", "another build's"),
    ],
)
def test_a_symbol_tells_whose_it_is(symbol, owner):
    assert whose(symbol) == owner
