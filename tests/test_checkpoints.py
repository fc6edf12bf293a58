"""The command that lists, verifies and prunes a run's checkpoints."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import pytest

from hvd_gan import checkpoints
from hvd_gan.checkpoints import age, size
from hvd_gan.run_lock import RunLock
from tests.engine.test_checkpoint_files import flip_a_bit, write


@pytest.fixture
def run(tmp_path):
    for step in (10, 20, 30):
        write(tmp_path / "run" / "checkpoints", step)
    return tmp_path / "run"


def damage(run, step: int) -> None:
    flip_a_bit(run / "checkpoints" / f"step-{step:08d}")


def names(run) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def listed(run, capsys, *flags) -> tuple[int, list]:
    code = checkpoints.main([str(run), "--json", *flags])
    return code, json.loads(capsys.readouterr().out)


def test_good_ones_are_listed_with_the_newest_last(run, capsys):
    assert checkpoints.main([str(run)]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["checkpoint", "stage", "size", "age", "state"]
    assert [row.split()[0] for row in rows] == [f"step-{step:08d}" for step in (10, 20, 30)]
    assert all("joint, step 4" in row and row.rstrip().endswith("good") for row in rows)


def test_json_says_all_of_it(run, capsys):
    damage(run, 20)
    os.utime(run / "checkpoints" / "step-00000030" / "SHA256SUMS", (0, time.time() - 3600))
    code, [_, wrong, good] = listed(run, capsys)
    assert code == 1
    assert 3600 <= good.pop("seconds") < 3700
    files = (run / "checkpoints" / "step-00000030").iterdir()
    assert good == {
        "name": "step-00000030",
        "state": "good",
        "finding": "",
        "step": 30,
        "stage": "joint",
        "stage_step": 4,
        "bytes": sum(file.stat().st_size for file in files),
    }
    assert wrong["state"] == "damaged" and wrong["step"] is None
    assert wrong["finding"] == "variables.data-00000-of-00001 is not what was written"


def test_those_set_aside_and_partial_ones_are_listed_and_everything_fits(run, capsys):
    damage(run, 30)
    (run / "checkpoints" / "step-00000020").rename(run / "checkpoints" / "damaged-00000020-2")
    (run / "checkpoints" / "partial-00000040").mkdir()
    assert checkpoints.main([str(run)]) == 1
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "damaged-00000020-2" in shown and "partial-00000040" in shown
    assert "damaged: set aside, though whole now" in " ".join(shown.split())


def test_a_partial_one_alone_is_no_damage(run, capsys):
    (run / "checkpoints" / "partial-00000040").mkdir()
    assert listed(run, capsys)[0] == 0


def test_none_at_all_is_told(tmp_path, capsys):
    assert checkpoints.main([str(tmp_path)]) == 1
    assert "has no checkpoint" in capsys.readouterr().out
    assert listed(tmp_path, capsys) == (1, [])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys):
    assert checkpoints.main([str(tmp_path / "gone")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_pruning_leaves_the_newest_good_ones_alone(run, capsys):
    write(run / "checkpoints", 40)
    damage(run, 40)
    (run / "checkpoints" / "damaged-00000005").mkdir()
    (run / "checkpoints" / "partial-00000041").mkdir()
    code, found = listed(run, capsys, "--prune", "2")
    assert code == 0
    assert [one["name"] for one in found] == ["step-00000020", "step-00000030"]
    assert names(run) == ["step-00000020", "step-00000030"]


def test_pruning_never_removes_the_last_good_one(run, capsys):
    for step in (20, 30):
        damage(run, step)
    assert checkpoints.main([str(run), "--prune", "1"]) == 0
    assert names(run) == ["step-00000010"]
    with pytest.raises(SystemExit):
        checkpoints.main([str(run), "--prune", "0"])
    assert names(run) == ["step-00000010"]


def test_where_none_is_good_pruning_keeps_what_there_is(run, capsys):
    for step in (10, 20, 30):
        damage(run, step)
    (run / "checkpoints" / "partial-00000040").mkdir()
    assert checkpoints.main([str(run), "--prune", "1"]) == 1
    assert names(run) == [f"step-{step:08d}" for step in (10, 20, 30)]


def test_while_a_job_runs_pruning_is_refused_and_listing_is_not(run, capsys):
    lock = RunLock()
    lock.take(run / "lock")
    assert checkpoints.main([str(run), "--prune", "1"]) == 2
    assert f"another job is running in this folder (pid {os.getpid()}" in capsys.readouterr().err
    assert len(names(run)) == 3
    assert checkpoints.main([str(run)]) == 0
    lock.close()
    assert checkpoints.main([str(run), "--prune", "1"]) == 0


def test_it_starts_without_tensorflow(run):
    program = (
        "import sys; from hvd_gan import checkpoints; code = checkpoints.main(sys.argv[1:])\n"
        "assert not {'tensorflow', 'horovod'} & set(sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, str(run)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert subprocess.run(command, check=False).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 1.5


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")]
)
def test_sizes_are_short(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200000, "2 d")],
)
def test_ages_are_in_their_largest_unit(seconds, text):
    assert age(seconds) == text
