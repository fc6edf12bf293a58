"""A run folder keeps its settings, and a run goes on only where that is right."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import load
from hvd_gan.run_folder import (
    load_settings,
    make_folder,
    remove_left_overs,
    restrict_new_files,
    save_settings,
    settings_to_go_on_with,
)


def settings(*overrides: str):
    return load("demo", overrides=overrides)[0]


def open_run(path, given, fresh):
    folder = make_folder(path, fresh)
    return folder, settings_to_go_on_with(folder, given, folder.has_checkpoints())


@pytest.fixture
def run(tmp_path):
    folder, resolved = open_run(
        tmp_path / "run", settings("data.mean_color=[0.1, 0.2, 0.3]"), fresh=False
    )
    save_settings(folder, resolved)
    checkpoint = folder.checkpoints / "step-00000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{}")
    return folder


def test_settings_survive_and_the_measured_color_is_kept(run):
    folder, resumed = open_run(run.path, settings(), fresh=False)
    assert folder == run
    assert resumed.data.mean_color == (0.1, 0.2, 0.3)
    assert resumed == load_settings(run)


@pytest.mark.parametrize(
    "harmless",
    ["log_every=3", "checkpoints.every=7", "evaluation.samples=9", "stages.joint.steps=9"],
)
def test_what_no_step_depends_on_may_change(run, harmless):
    open_run(run.path, settings(harmless), fresh=False)


@pytest.mark.parametrize(
    ("wrong", "listed"),
    [
        ("seed=99", "seed: 1 -> 99"),
        ("batch=64", "batch: 32 -> 64"),
        ("model.settings.alpha=0.5", "model.settings.alpha: "),
        ("stages.joint=null", "stages.joint.updates.generator.loss.joint: 1.0 -> None"),
        (
            "stages.joint.updates.generator.loss={joint: {steps: 9}}",
            "stages.joint.updates.generator.loss.joint",
        ),
        ("data.hole.kind=strokes", "data.hole.kind: box -> strokes"),
    ],
)
def test_what_a_step_depends_on_may_not(run, wrong, listed):
    with pytest.raises(ConfigError) as raised:
        open_run(run.path, settings(wrong), fresh=False)
    assert "--fresh" in str(raised.value)
    assert listed in str(raised.value)


def test_before_the_first_checkpoint_everything_may_change(tmp_path):
    folder, resolved = open_run(tmp_path / "run", settings(), fresh=False)
    save_settings(folder, resolved)
    assert open_run(tmp_path / "run", settings("seed=99"), fresh=False)[1].seed == 99


def test_fresh_takes_the_next_free_name(run):
    folder, _ = open_run(run.path, settings("seed=99"), fresh=True)
    assert folder.path == run.path.with_name("run-2")
    folder, _ = open_run(run.path, settings("seed=99"), fresh=True)
    assert folder.path == run.path.with_name("run-3")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="holds something else than a run"):
        open_run(tmp_path, settings(), fresh=False)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the folder"):
        open_run(tmp_path / "file" / "run", settings(), fresh=False)


def test_damaged_checkpoints_hold_the_settings_too(run):
    checkpoint = run.checkpoints / "step-00000001"
    checkpoint.rename(run.checkpoints / "damaged-00000001")
    with pytest.raises(ConfigError, match="seed: 1 -> 99"):
        open_run(run.path, settings("seed=99"), fresh=False)


def test_a_run_without_its_settings_is_told_so(run):
    run.settings.unlink()
    with pytest.raises(ConfigError, match=r"settings\.yaml: cannot read"):
        open_run(run.path, settings(), fresh=False)


def test_a_job_that_ended_before_its_settings_were_saved_can_be_started_again(tmp_path):
    for name in ("lock", "log.txt", "settings.yaml.partial"):
        (tmp_path / name).write_text("")
    (tmp_path / "log").mkdir()
    open_run(tmp_path, settings(), fresh=False)


def test_fresh_jobs_at_one_moment_get_a_folder_each(tmp_path):
    program = (
        "import sys; from pathlib import Path; from hvd_gan.run_folder import make_folder\n"
        "sys.stdin.readline(); print(make_folder(Path(sys.argv[1]), fresh=True).path.name)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    jobs = [subprocess.Popen(command, **pipes) for _ in range(5)]
    for job in jobs:  # All have started before the first one goes on.
        job.stdin.write("go\n")
        job.stdin.flush()
    taken = sorted(job.communicate()[0].strip() for job in jobs)
    assert taken == ["run", "run-2", "run-3", "run-4", "run-5"]


@pytest.mark.parametrize(
    ("umask", "folders", "files"),
    [(0o000, 0o755, 0o644), (0o022, 0o755, 0o644), (0o077, 0o700, 0o600)],
)
def test_no_one_else_can_write_into_a_run(tmp_path, umask, folders, files):
    before = os.umask(umask)
    try:
        restrict_new_files()
        folder, resolved = open_run(tmp_path / "runs" / "run", settings(), fresh=False)
        save_settings(folder, resolved)
    finally:
        os.umask(before)
    for path in (folder.path, folder.path.parent):
        assert path.stat().st_mode & 0o777 == folders
    assert folder.settings.stat().st_mode & 0o777 == files


def test_what_a_killed_job_was_writing_is_removed_and_nothing_else(run):
    for name in (
        "evaluation.json.partial",
        "samples/1.png.partial",
        "checkpoints/partial-1/state.json",
    ):
        path = run.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    kept = {run.samples, run.checkpoints / "damaged-00000001", run.samples / "1.png"}
    (run.checkpoints / "damaged-00000001").mkdir()
    (run.samples / "1.png").write_text("whole")
    before = {
        path for path in run.path.rglob("*") if "partial" not in str(path.relative_to(run.path))
    }
    remove_left_overs(run)
    assert set(run.path.rglob("*")) == before and kept <= before


@pytest.mark.parametrize("content", ["", '{"joint": ', '{"joint": 3}', "[]"])
def test_a_damaged_evaluation_is_told_before_it_is_written_over(run, content):
    quality = {"completion": {"psnr": 20.5}, "joint": {"psnr": float("inf")}}
    run.write_quality(quality)
    assert run.read_quality() == quality
    run.quality.write_text(content)
    with pytest.raises(ConfigError, match=r"evaluation\.json: is damaged; move it away"):
        run.read_quality()
