"""Whatever happens to rank 0's disk or in the midst of a save: what was saved is whole, the job
says what is wrong, and goes on from there as if nothing had been.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hvd_gan import checkpoints
from hvd_gan.engine.checkpoint_files import checkpoints_in
from tests.disks import mount_or_skip, small_disk
from tests.engine.test_checkpoint_files import DAMAGE, flip_a_bit, lose_the_index
from tests.launch import ROOT, TINY, Started, command, environment, launch, slow, train, trained
from tests.ranks.runs import metrics, values

pytestmark = pytest.mark.ranks
OFTEN = ("checkpoints={every: 1, keep: 100}", "log_every=1")
KEEP_GOING = "--keep-going-on-save-error"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on two ranks that nothing disturbed."""
    return trained("mpirun", 2, tmp_path_factory.mktemp("whole") / "run", *OFTEN)


def disturbed(plan: str, run: Path, *settings: str):
    program = ("-m", "tests.ranks.programs.disturbed", plan)
    return launch("mpirun", 2, *program, "--run", str(run), *TINY, *OFTEN, *settings)


def steps(run: Path) -> list[int]:
    """The steps of the checkpoints, each of which is whole by sha256sum's own verdict."""
    for path in checkpoints_in(run / "checkpoints"):
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=path, check=True)
    return [int(path.name.removeprefix("step-")) for path in checkpoints_in(run / "checkpoints")]


def no_half_written_files(run: Path) -> bool:
    return not [path for path in run.rglob("*") if "partial" in path.name]


def assert_goes_on_exactly(run: Path, whole: Path, after: int) -> None:
    """The same command ends well, with every variable's bits as in the undisturbed run."""
    done = train("mpirun", 2, run, *OFTEN)
    assert done.code == 0, done.output
    assert f"resumed after step {after}" in done.output
    assert_same(run, whole)
    assert no_half_written_files(run)


def assert_same(run: Path, whole: Path) -> None:
    expected, found = values(whole), values(run)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert [line["step"] for line in metrics(run)] == list(range(1, 13))


def test_a_disk_that_fills_up_stops_the_job_and_the_last_checkpoint_is_intact(whole, tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        done = disturbed("full@6", disk / "run")
        assert done.code not in (0, 2, 75)
        assert "No space left on device" in done.last_line, done.output
        assert "rank 0 of 2" in done.last_line
        assert "the last good checkpoint, of step 5, stands intact" in done.last_line
        assert f"hvd_gan.checkpoints {disk}/run --prune 1" in done.last_line
        assert steps(disk / "run") == [1, 2, 3, 4, 5]
        assert no_half_written_files(disk / "run")
        (disk / "filler").unlink()
        assert_goes_on_exactly(disk / "run", whole, after=5)


@pytest.mark.slow
def test_a_disk_that_is_too_small_is_cured_as_the_message_says(tmp_path, capsys):
    with small_disk(tmp_path / "disk", "600k") as disk:
        done = train("mpirun", 2, disk / "run", *OFTEN)
        assert done.code not in (0, 2, 75) and "No space left" in done.last_line, done.output
        last = steps(disk / "run")[-1]
        assert checkpoints.main([str(disk / "run"), "--prune", "1"]) == 0
        again = train("mpirun", 2, disk / "run", "checkpoints={every: 1, keep: 2}")
        assert again.code == 0 and f"resumed after step {last}" in again.output, again.output


def test_a_job_that_keeps_going_says_so_and_saves_when_there_is_room_again(whole, tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        run = disk / "run"
        done = disturbed("full@4,free@8", run, KEEP_GOING)
        assert done.code == 0, done.output
        for step in (4, 5, 6, 7):
            warned = f"warning: the checkpoint of step {step} could not be written in {run}"
            assert done.output.count(warned) == 1, done.output
        assert "Training goes on and tries again at the next occasion" in done.output
        assert "the last good checkpoint, of step 3, stands intact" in done.output
        assert steps(run) == [1, 2, 3, 8, 9, 10, 11, 12]
        assert no_half_written_files(run)
        assert_same(run, whole)


def test_a_job_that_keeps_going_does_not_pass_for_done_without_its_last_checkpoint(tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        done = disturbed("full@10", disk / "run", KEEP_GOING)
        assert done.code not in (0, 2, 75)
        assert "the checkpoint of step 12 could not be written" in done.last_line, done.output
        assert "the last good checkpoint, of step 9, stands intact" in done.last_line


@pytest.mark.slow
def test_pictures_and_evaluations_follow_the_same_policy(tmp_path):
    small = ("model.settings={width: 0.1}", "evaluation={samples: 4, every: 1}", "batch=4")
    short = ("stages.completion.steps=4", "stages.discriminator.steps=2", "stages.joint.steps=2")
    flags = ("--preset", "demo", *OFTEN, *small, *short, KEEP_GOING)
    with small_disk(tmp_path / "disk", "60m") as disk:
        run = disk / "run"
        program = ("-m", "tests.ranks.programs.disturbed", "full@3,free@5", "--run", str(run))
        done = launch("single", 1, *program, *flags)
        assert done.code == 0, done.output
        for name in ("00000003-completion.png", "evaluation.json", "the checkpoint of step 4"):
            assert f"warning: {name}" in done.output, done.output
        # The first stage's evaluation was measured while the disk was full.
        assert list(json.loads((run / "evaluation.json").read_text())) == [
            "completion",
            "discriminator",
            "joint",
        ]
        pictures = sorted(path.name[:8] for path in (run / "samples").iterdir())
        assert pictures == [f"{step:08d}" for step in (1, 2, 5, 6, 7, 8)]
        for path in (run / "samples").iterdir():
            Image.open(path).load()
        assert no_half_written_files(run)


@pytest.mark.slow
def test_a_disk_that_turns_read_only_stops_the_job(whole, tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        done = disturbed("readonly@6", disk / "run")
        assert done.code not in (0, 2, 75)
        assert "Read-only file system" in done.last_line, done.output
        assert "the last good checkpoint, of step 5, stands intact" in done.last_line
        refused = train("mpirun", 2, disk / "run", *OFTEN)
        assert refused.code == 2 and "Read-only file system" in refused.last_line, refused.output
        subprocess.run(["umount", str(disk / "run")], check=True)
        assert steps(disk / "run") == [1, 2, 3, 4, 5]
        assert_goes_on_exactly(disk / "run", whole, after=5)


@pytest.mark.slow
def test_a_job_that_keeps_going_outlives_a_while_of_read_only(whole, tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        done = disturbed("readonly@4,writable@7", disk / "run", KEEP_GOING)
        assert done.code == 0, done.output
        assert done.output.count("warning: metrics.jsonl could not be written") == 1 + 1
        assert steps(disk / "run") == [1, 2, 3, 7, 8, 9, 10, 11, 12]
        assert_same(disk / "run", whole)


def test_a_run_folder_that_is_removed_under_the_job_is_told(tmp_path):
    done = disturbed("lost@4", tmp_path / "run")
    assert done.code not in (0, 2, 75)
    assert "could not be written in" in done.last_line, done.output
    assert "No such file or directory" in done.last_line
    assert "The run's folder is gone" in done.last_line


@pytest.mark.parametrize(
    ("moment", "saved"),
    [
        # Before anything is written; without sums yet; with sums, and not yet on the disk.
        slow("checkpoints.writing", [1, 2, 3, 4, 5, 6]),
        ("checkpoints.seal", [1, 2, 3, 4, 5, 6]),
        slow("checkpoint_files.sync", [1, 2, 3, 4, 5, 6]),
        # Renamed; in the midst of pruning.
        slow("checkpoints.sync_folder", [1, 2, 3, 4, 5, 6, 7]),
        ("checkpoints.remove", [5, 6, 7]),
    ],
)
def test_a_kill_in_the_midst_of_saving_loses_nothing_that_was_saved(whole, tmp_path, moment, saved):
    run = tmp_path / "run"
    done = disturbed(f"kill@7:{moment}", run, *(["checkpoints.keep=3"] if saved[0] > 1 else []))
    assert done.code != 0
    assert steps(run) == saved
    assert no_half_written_files(run) == (
        moment in ("checkpoints.writing", "checkpoints.sync_folder")
    )
    assert_goes_on_exactly(run, whole, after=saved[-1])


def test_damaged_checkpoints_are_told_set_aside_and_made_again(whole, tmp_path):
    run = copy(whole, tmp_path)
    flip_a_bit(run / "checkpoints" / "step-00000012")
    lose_the_index(run / "checkpoints" / "step-00000011")
    half = run / "checkpoints" / "partial-00000013"
    half.mkdir()
    (half / "variables.index").write_text("half")
    done = train("mpirun", 2, run, *OFTEN)
    assert done.code == 0, done.output
    for step, damage in ((12, flip_a_bit), (11, lose_the_index)):
        line = f"warning: step-000000{step} is damaged: {DAMAGE[damage]}; set aside as damaged-"
        assert done.output.count(line) == 1, done.output
    assert "resumed after step 10" in done.output
    assert steps(run) == list(range(1, 13))
    assert (run / "checkpoints" / "damaged-00000012").is_dir() and not half.exists()
    assert_same(run, whole)


def test_where_no_checkpoint_is_good_the_job_stops_and_touches_nothing_else(whole, tmp_path):
    run = copy(whole, tmp_path)
    for path in checkpoints_in(run / "checkpoints"):
        (path / "state.json").write_text("")
    before = (run / "metrics.jsonl").read_bytes(), (run / "settings.yaml").read_bytes()
    for _ in range(2):
        done = train("mpirun", 2, run, *OFTEN)
        assert done.code == 2
        assert "there are checkpoints, but none is good" in done.output, done.output
        assert "--fresh" in done.output and "Traceback" not in done.output
    assert ((run / "metrics.jsonl").read_bytes(), (run / "settings.yaml").read_bytes()) == before


@pytest.mark.slow
def test_weights_are_not_taken_from_a_damaged_checkpoint(whole, tmp_path):
    source = copy(whole, tmp_path)
    flip_a_bit(source / "checkpoints" / "step-00000012")
    refused = train("single", 1, tmp_path / "new", "--init-from", f"{source}:12")
    assert refused.code == 2
    assert "step-00000012 is damaged: variables.data-00000-of-00001 is not" in refused.output
    done = train("single", 1, tmp_path / "new", "--init-from", str(source))
    assert done.code == 0, done.output
    assert f"warning: {source}: step-00000012 is damaged" in done.output
    assert steps(source.parent / "new")[-1] == 12


def copy(whole: Path, path: Path) -> Path:
    subprocess.run(["cp", "-a", str(whole), str(path / "run")], check=True)
    return path / "run"


def test_a_second_job_on_a_run_folder_is_refused_and_the_first_goes_on(tmp_path):
    run = tmp_path / "run"
    long = ("stages.completion.steps=100000", "checkpoints.every=20")
    with Started("mpirun", run, *long) as first:
        first.until(lambda: checkpoints_in(run / "checkpoints"))
        second = train("mpirun", 2, run, *long)
        assert second.code == 2
        assert "another job is running in this folder (pid " in second.last_line, second.output
        assert checkpoints.main([str(run), "--prune", "1"]) == 2
        last = checkpoints_in(run / "checkpoints")[-1]
        first.until(lambda: checkpoints_in(run / "checkpoints")[-1] != last)


def test_only_rank_0_needs_to_see_the_run_folder(whole, tmp_path):
    """Rank 1 finds a file system of its own over it, in which it could not write a thing."""
    mount_or_skip(tmp_path / "tried", "-t", "tmpfs", "tmpfs")
    subprocess.run(["umount", str(tmp_path / "tried")], check=True)
    folder = tmp_path / "seen-by-rank-0"
    folder.mkdir()
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(
        f"""#!/bin/sh
        if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
            exec unshare --mount sh -c 'mount -t tmpfs -o ro tmpfs {folder} && exec "$@"' sh "$@"
        fi
        exec "$@"
        """
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    run = folder / "run"
    launcher = command("mpirun", 2, "-m", "hvd_gan.train", "--run", str(run), *TINY, *OFTEN)
    launcher.insert(launcher.index("2") + 1, str(wrapper))
    for part in ("stages.joint.steps=1", "stages.joint.steps=4"):
        done = subprocess.run(
            [*launcher, part],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed after step 9" in done.stdout
    assert steps(run) == list(range(1, 13))
    assert_same(run, whole)


@pytest.mark.slow
def test_nobody_else_may_write_into_a_run(tmp_path):
    before = os.umask(0)
    try:
        run = trained("single", 1, tmp_path / "runs" / "run", "evaluation.samples=4")
    finally:
        os.umask(before)
    made = [run.parent, run, *run.rglob("*")]
    assert len(made) > 10
    assert [path for path in made if path.stat().st_mode & 0o022] == []
