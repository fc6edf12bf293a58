"""Settings say what is wrong, where, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import differences, dump, load, presets, read


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return path

    return write


def error(*, config=None, overrides=(), preset=None) -> str:
    with pytest.raises(ConfigError) as raised:
        load(preset, [config] if config else [], overrides)
    return str(raised.value)


def test_later_layers_win(write):
    path = write("seed: 5\nbatch: 16\nstages:\n  joint: {steps: 7}\n")
    settings, _ = load("demo", [path], ["seed=6", "stages.completion.steps=500"])
    assert (settings.seed, settings.batch) == (6, 16)
    assert settings.stages["completion"].steps == 500
    assert settings.stages["joint"].steps == 7
    assert settings.data.source == "digits"


def test_a_file_without_stages_has_the_three_stages():
    settings, _ = load()
    assert list(settings.stages) == ["completion", "discriminator", "joint"]
    moved = {
        stage: {(*u.loss, *u.networks) for u in settings.stages[stage].updates.values()}
        for stage in settings.stages
    }
    assert moved == {
        "completion": {("completion", "generator")},
        "discriminator": {("discriminator", "discriminator")},
        "joint": {("discriminator", "discriminator"), ("joint", "generator")},
    }


def test_a_file_with_stages_of_its_own_has_only_those(write):
    path = write(
        "stages:\n  warm:\n    steps: 3\n    updates:\n      g: {loss: a, networks: [b]}\n"
    )
    assert list(load(files=[path])[0].stages) == ["warm"]


def test_stages_come_in_the_order_of_the_file_though_some_have_defaults(write):
    path = write(
        "stages:\n  warm: {steps: 3, updates: {g: {loss: a, networks: [b]}}}\n"
        "  joint: {steps: 1}\n  completion: {steps: 1}\n"
    )
    assert list(load(files=[path])[0].stages) == ["warm", "joint", "completion"]


def test_a_stage_that_states_its_updates_has_those_alone(write):
    path = write(
        "stages:\n  joint: {steps: 1, updates: {g: {loss: {a: 1, b: 2}, networks: [c]}}}\n"
    )
    [update] = load(files=[path])[0].stages["joint"].updates.values()
    assert update.loss == {"a": 1, "b": 2}


def test_another_optimizer_replaces_and_the_same_one_merges():
    changed, _ = load("glcic", overrides=["optimizer={name: adam, learning_rate: 0.1}"])
    assert changed.optimizer.hyperparameters() == {"beta1": 0.5, "beta2": 0.999, "epsilon": 1e-8}
    merged, _ = load("glcic", overrides=["optimizer.rho=0.9"])
    assert merged.optimizer.name == "adadelta"
    assert merged.optimizer.hyperparameters() == {"rho": 0.9, "epsilon": 1e-6}


def test_a_loss_replaces_and_a_part_of_it_can_be_set():
    loss = "stages.joint.updates.generator.loss"
    whole, _ = load("demo", overrides=[f"{loss}={{completion: 1, adversarial: 0.1}}"])
    assert whole.stages["joint"].updates["generator"].loss == {"completion": 1, "adversarial": 0.1}
    part, _ = load("demo", overrides=[f"{loss}.adversarial=0.1"])
    assert part.stages["joint"].updates["generator"].loss == {"joint": 1, "adversarial": 0.1}


def test_null_takes_a_stage_out():
    settings, _ = load("demo", overrides=["stages.joint=null"])
    assert list(settings.stages) == ["completion", "discriminator"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch: 8\nseeed: 1", "my.yaml:2: seeed: unknown key; did you mean 'seed'?"),
        (
            "stages:\n  completion:\n    stepz: 4",
            "my.yaml:3: stages.completion.stepz: unknown key; did you mean 'steps'?",
        ),
        (
            "data:\n  hole: {mim: 3}",
            "my.yaml:2: data.hole.mim: unknown key; did you mean 'min'?",
        ),
        (
            "stages:\n  completion:\n    updates:\n      generator:\n        optimizer: {rate: 1}",
            "my.yaml:5: stages.completion.updates.generator.optimizer.rate: unknown key; known",
        ),
        ("seed: soon", "my.yaml:1: seed: input should be a valid integer"),
        ("batch: 0", "my.yaml:1: batch: input should be greater than or equal to 1, not 0"),
        ("optimizer:\n  learning_rate: .nan", "optimizer.learning_rate: input should be a finite"),
        ("data:\n  image_size: 64\n  hole: {max: 65}", "my.yaml:1: data: hole.max (65) is larger"),
        ("data: {hole: {min: 9, max: 8}}", "my.yaml:1: data.hole: min (9) is larger than max (8)"),
        ("data: {short_side: [32, 64]}", "short_side (32 to 64) has to start at image_size (64)"),
        ("optimizer: {name: sgd, beta1: 0.5}", "optimizer: sgd has no beta1"),
        ("scaling: {rule: linear}", "scaling: rule linear needs reference_batch"),
        ("stages: {completion: {steps: 0}}", "stages: every stage has 0 steps"),
        ("seed: 1\nseed: 2", "my.yaml:2: seed: stated twice, first at"),
        ("seed: 1\nbatch: ]", "my.yaml:2: not valid YAML"),
        ("- 1", "my.yaml:1: settings are a mapping"),
        ("model: {build: nonsense}", "my.yaml:1: model.build: string should match"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_the_cure(write, text, expected):
    assert expected in error(config=write(text))


def test_all_findings_are_told_at_once(write):
    assert len(error(config=write("seeed: 1\nbatch: no\nlog_evry: 2")).splitlines()) == 3


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("stages.completion.stepz=1", "command line: stages.completion.stepz: unknown key"),
        ("seed", "command line: 'seed' is no setting; write key=value"),
        ("seed=[", "command line: seed: '[' is not valid YAML"),
        ("seed=-1", "command line: seed: input should be greater than or equal to 0"),
    ],
)
def test_a_wrong_override_is_refused(override, expected):
    assert expected in error(overrides=[override])


def test_a_missing_file_and_a_wrong_preset_are_refused(tmp_path):
    assert "cannot read the settings file: No such file" in error(config=tmp_path / "none.yaml")
    assert "did you mean 'demo'?" in error(preset="dmo")


def test_yaml_tags_build_no_objects(write):
    path = write("seed: !!python/object/apply:os.getpid []")
    assert "not valid YAML" in error(config=path)


def test_numbers_may_be_written_as_people_write_them(write):
    settings, _ = load(files=[write("optimizer: {learning_rate: 2e-4}")])
    assert settings.optimizer.learning_rate == 2e-4


@pytest.mark.parametrize("preset", presets())
def test_a_preset_is_valid_and_survives_being_written(preset, tmp_path):
    settings, _ = load(preset)
    path = tmp_path / "settings.yaml"
    path.write_text(dump(settings))
    assert read(path).validate(Settings) == settings
    assert yaml.safe_load(dump(settings))["stages"].keys() == settings.stages.keys()


def test_the_paper_s_preset_is_the_paper_s():
    """Iizuka et al. 2017, sections 3.4 and 4."""
    settings, _ = load("glcic")
    assert settings.batch == 96
    assert [stage.steps for stage in settings.stages.values()] == [90_000, 10_000, 400_000]
    data = settings.data
    assert (data.image_size, data.short_side) == (256, (256, 384))
    assert (data.hole.min, data.hole.max) == (96, 128)
    assert settings.model.settings["patch_size"] == 128
    assert settings.model.settings["alpha"] == 0.0004
    assert settings.optimizer.name == "adadelta"


def test_a_cycle_repeats_its_stages(write):
    path = write(
        "stages:\n"
        "  warm: {steps: 1, updates: {g: {loss: a, networks: [b]}}}\n"
        "  around:\n"
        "    repeat: 2\n"
        "    stages:\n"
        "      one: {steps: 3, updates: {g: {loss: a, networks: [b]}}}\n"
        "      two: {steps: 4, updates: {g: {loss: a, networks: [b]}}}\n"
    )
    settings, _ = load(files=[path])
    assert settings.visits == ["warm", "one", "two", "one", "two"]
    assert {name: stage.steps for name, stage in settings.distinct_stages.items()} == {
        "warm": 1,
        "one": 3,
        "two": 4,
    }


STAGE = "stages:\n  one:\n    steps: 3\n    updates:\n      g: {loss: a, networks: [b]}\n"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("    alternate: {h: 2}", "alternate names h; the stage's updates are g"),
        ("    plateau: {los: a}", "stages.one.plateau.los: unknown key; did you mean 'loss'?"),
        (
            "  around:\n    repeat: 2\n    stages:\n      one: {steps: 1, updates: {g: {loss: a, "
            "networks: [b]}}}",
            "one stands twice; stages need distinct names",
        ),
        (
            "  around:\n    repeat: 2\n    stages:\n      two: {stps: 1}",
            "my.yaml:9: stages.around.stages.two.stps: unknown key; did you mean 'steps'?",
        ),
        ("  around: {repeat: 0, stages: {}}", "stages.around.repeat: input should be greater"),
    ],
)
def test_a_wrong_schedule_is_refused(write, more, expected):
    assert expected in error(config=write(STAGE + more))


def test_a_loss_may_be_a_sum_with_weights_and_ramps(write):
    text = STAGE.replace("loss: a", "loss: {a: 1, c: {end: 0.5, steps: 10}}")
    settings, _ = load(files=[write(text)])
    loss = settings.stages["one"].updates["g"].loss
    assert loss["a"] == 1.0
    assert (loss["c"].start, loss["c"].end, loss["c"].steps) == (0.0, 0.5, 10)
    wrong = STAGE.replace("loss: a", "loss: {a: {ends: 0.5, steps: 10}}")
    assert "loss.a.ends: unknown key; did you mean 'end'?" in error(config=write(wrong))


def test_the_batch_divides_over_ranks_and_passes():
    settings, _ = load(overrides=["batch=96"])
    assert settings.rank_batch(8) == 12
    with pytest.raises(ConfigError) as raised:
        settings.rank_batch(7)
    assert "set batch=91 or 98" in str(raised.value)
    assert " 8, 12, 16," in str(raised.value)
    settings, _ = load(overrides=["batch=96", "backward_passes_per_step=3"])
    assert settings.rank_batch(8) == 4
    with pytest.raises(ConfigError, match="5 ranks x 3 passes"):
        settings.rank_batch(5)


@pytest.mark.parametrize(("rule", "factor"), [("none", 1), ("linear", 4), ("sqrt", 2)])
def test_rates_scale_as_the_rule_says(rule, factor):
    settings, _ = load(overrides=[f"scaling={{rule: {rule}, reference_batch: 32}}", "batch=128"])
    assert settings.scaling.factor(settings.batch) == factor


def test_differences_name_dotted_keys():
    one, _ = load("demo")
    other, _ = load("demo", overrides=["seed=9", "stages.joint=null"])
    found = differences(one, other)
    assert found["seed"] == (one.seed, 9)
    assert found["stages.joint.steps"] == (one.stages["joint"].steps, None)
