"""Damage of every kind to a checkpoint is found, told, and set aside."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.checkpoint_files import (
    DamagedError,
    Newest,
    checkpoints_in,
    newest_good,
    seal,
    verified,
)

STATE = {
    "step": 0,
    "stage": "joint",
    "stage_step": 4,
    "schedule": [["completion", 5], ["joint", 4]],
    "ranks": 2,
    "images": "dddd",
}


def write(folder, step: int) -> None:
    """A checkpoint whose sums are made here, as `sha256sum` makes them."""
    path = folder / f"step-{step:08d}"
    path.mkdir(parents=True)
    (path / "variables.index").write_bytes(os.urandom(100))
    (path / "variables.data-00000-of-00001").write_bytes(os.urandom(5000))
    (path / "state.json").write_text(json.dumps({**STATE, "step": step}))
    sum_up(path)


def sum_up(path) -> None:
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(path.iterdir())
        if file.name != "SHA256SUMS"
    ]
    (path / "SHA256SUMS").write_text("".join(lines))


@pytest.fixture
def folder(tmp_path):
    for step in (10, 20, 30):
        write(tmp_path, step)
    return tmp_path


def truncate(path):
    os.truncate(path / "variables.data-00000-of-00001", 4999)


def flip_a_bit(path):
    file = path / "variables.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[2500] ^= 1
    file.write_bytes(content)


def lose_the_index(path):
    (path / "variables.index").unlink()


def lose_the_index_and_its_sum(path):
    (path / "variables.index").unlink()
    sum_up(path)


def empty_the_state(path):
    (path / "state.json").write_text("")


def empty_the_state_and_sum_up(path):
    (path / "state.json").write_text("")
    sum_up(path)


def lose_the_sums(path):
    (path / "SHA256SUMS").unlink()


def empty_the_sums(path):
    (path / "SHA256SUMS").write_text("")


def sums_of_something_else(path):
    (path / "SHA256SUMS").write_bytes(os.urandom(200))


def sums_of_files_elsewhere(path):
    (path / "SHA256SUMS").write_text(f"{'0' * 64}  ../../settings.yaml\n")


def add_a_file(path):
    (path / "variables.data-00001-of-00002").write_text("")


def a_folder_for_a_file(path):
    (path / "variables.index").unlink()
    (path / "variables.index").mkdir()


def a_link_for_a_file(path):
    (path / "variables.index").rename(path.parent / "elsewhere")
    (path / "variables.index").symlink_to(path.parent / "elsewhere")


def lose_everything(path):
    shutil.rmtree(path)
    path.mkdir()


def a_file_for_the_folder(path):
    shutil.rmtree(path)
    path.write_text("")


def the_state_of_another_step(path):
    shutil.rmtree(path)
    shutil.copytree(path.parent / "step-00000010", path)


DAMAGE = {
    truncate: "variables.data-00000-of-00001 is not what was written",
    flip_a_bit: "variables.data-00000-of-00001 is not what was written",
    lose_the_index: "variables.index is missing",
    lose_the_index_and_its_sum: "variables.index is missing",
    empty_the_state: "state.json is not what was written",
    empty_the_state_and_sum_up: "state.json: Invalid JSON",
    lose_the_sums: "SHA256SUMS is missing",
    empty_the_sums: "SHA256SUMS is not what was written",
    sums_of_something_else: "SHA256SUMS is not what was written",
    sums_of_files_elsewhere: "SHA256SUMS is not what was written",
    add_a_file: "'variables.data-00001-of-00002' does not belong to it",
    a_folder_for_a_file: "variables.index is no file",
    a_link_for_a_file: "variables.index is no file",
    lose_everything: "SHA256SUMS is missing",
    a_file_for_the_folder: "it is no folder",
    the_state_of_another_step: "state.json is that of step 10",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_told_in_one_line_and_the_one_before_is_used(folder, damage):
    damage(folder / "step-00000030")
    newest = newest_good(folder, aside=True)
    assert newest.checkpoint == folder / "step-00000020"
    [report] = newest.reports
    assert report.startswith(f"step-00000030 is damaged: {DAMAGE[damage]}")
    assert report.endswith("; set aside as damaged-00000030") and "\n" not in report
    assert [path.name for path in checkpoints_in(folder)] == ["step-00000010", "step-00000020"]
    assert (folder / "damaged-00000030").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "30"},
        {"step": 30.0},
        {"ranks": 0},
        {"stage": None},
        {"schedule": [["joint", "4"]]},
        {"schedule": [["joint"]]},
        {"extra": 1},
    ],
    ids=str,
)
def test_a_state_of_another_shape_is_damage(folder, wrong):
    path = folder / "step-00000030"
    (path / "state.json").write_text(json.dumps({**STATE, "step": 30, **wrong}))
    sum_up(path)
    with pytest.raises(DamagedError, match=rf"^state\.json: {next(iter(wrong))}"):
        verified(path)


def test_a_state_that_lacks_something_is_damage(folder):
    path = folder / "step-00000030"
    (path / "state.json").write_text(json.dumps({"step": 30}))
    sum_up(path)
    with pytest.raises(DamagedError, match=r"state\.json: stage: Field required"):
        verified(path)


def test_several_damaged_ones_are_all_told_and_none_writes_over_another(folder):
    (folder / "damaged-00000030").mkdir()
    (folder / "damaged-00000030" / "evidence").write_text("of before")
    flip_a_bit(folder / "step-00000030")
    truncate(folder / "step-00000020")
    newest = newest_good(folder, aside=True)
    assert newest.checkpoint == folder / "step-00000010"
    assert len(newest.reports) == 2
    assert newest.reports[0].endswith("set aside as damaged-00000030-2")
    assert (folder / "damaged-00000030" / "evidence").read_text() == "of before"


def test_where_none_is_good_a_run_does_not_start_over_by_itself(folder):
    for path in checkpoints_in(folder):
        empty_the_state(path)
    for _ in range(2):  # The second time all have been set aside already.
        with pytest.raises(ConfigError) as raised:
            newest_good(folder, aside=True)
        assert "there are checkpoints, but none is good" in str(raised.value)
        assert "--fresh" in str(raised.value) and "bring a good one back" in str(raised.value)
        assert str(raised.value).count("\n") == 3


def test_one_that_is_brought_back_is_used(folder):
    (folder / "step-00000030").rename(folder / "damaged-00000030")
    (folder / "damaged-00000030").rename(folder / "step-00000030")
    assert newest_good(folder, aside=True).checkpoint == folder / "step-00000030"


def test_who_only_reads_moves_nothing(folder):
    flip_a_bit(folder / "step-00000030")
    before = sorted(folder.rglob("*"))
    assert newest_good(folder).checkpoint == folder / "step-00000020"
    assert sorted(folder.rglob("*")) == before


def test_a_folder_without_checkpoints_has_none(tmp_path):
    assert newest_good(tmp_path / "nothing", aside=True) == Newest()


def test_what_a_network_file_system_leaves_does_no_harm(folder):
    (folder / "step-00000030" / ".nfs0000001").write_text("")
    assert newest_good(folder).checkpoint == folder / "step-00000030"


def test_a_pickle_is_never_opened(folder, tmp_path):
    marker = tmp_path / "was-run"
    path = folder / "step-00000030"
    (path / "state.json").write_bytes(b"cposix\nsystem\n(S'touch %b'\ntR." % bytes(marker))
    sum_up(path)
    with pytest.raises(DamagedError):
        verified(path)
    assert not marker.exists()


def test_sha256sum_verifies_what_was_sealed(folder):
    path = folder / "step-00000030"
    lose_the_sums(path)
    seal(path)
    check = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    done = subprocess.run(check, cwd=path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 3, done.stderr
    flip_a_bit(path)
    assert subprocess.run(check, cwd=path, capture_output=True).returncode == 1
