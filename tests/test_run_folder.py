"""A run folder keeps its settings, and a run goes on only where that is right."""

from __future__ import annotations

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import load
from hvd_gan.run_folder import load_settings, open_run, save_settings


def settings(*overrides: str):
    return load("demo", overrides=overrides)[0]


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
