"""What README and CONTRIBUTING say to type works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hvd_gan import audit, checkpoints, doctor, latent, train
from hvd_gan import launch as launch_command
from hvd_gan.config import Settings
from hvd_gan.config_files import load, presets
from tests.launch import ROOT, launch

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{page}.md" for page in ("faults", "numerics", "schedules", "towers", "vae-gan")),
)
PARSERS = {
    "train": train.parser,
    "audit": audit.parser,
    "latent": latent.parser,
    "checkpoints": checkpoints.parser,
    "doctor": doctor.parser,
}
TAKES_SETTINGS = ("train", "audit")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def commands() -> list[str]:
    lines = [line.strip() for page in PAGES for line in (ROOT / page).read_text().splitlines()]
    started = r"(hvd-gan launch .*|mpirun .*|horovodrun .*)?python -m hvd_gan\."
    return [line for line in lines if re.match(started, line)]


@pytest.mark.parametrize("line", commands())
def test_every_command_has_flags_and_settings_that_exist(line):
    words = shlex.split(line, comments=True)
    if words[:2] == ["hvd-gan", "launch"]:
        assert launch_command.parser().parse_args(words[2:]).command[0] in ("mpirun", "horovodrun")
    [module] = [word for word in words if word.startswith("hvd_gan.")]
    parser = PARSERS[module.removeprefix("hvd_gan.")]()
    arguments = words[words.index(module) + 1 :]
    if module.removeprefix("hvd_gan.") in TAKES_SETTINGS:
        options = parser.parse_intermixed_args(arguments)
        load(options.preset, (), options.overrides)
    else:
        parser.parse_args(latent.joined(arguments))


def test_the_readme_has_all_presets_and_only_keys_that_exist():
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"`([\w.-]+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)))
    assert set(presets()) < set(rows)
    keys = [row.split(".")[0] for row in rows if row not in presets()]
    assert set(keys) <= set(Settings.model_fields)


@pytest.mark.ranks
def test_the_schedule_of_the_page_is_one_that_glcic_can_train(tmp_path):
    [schedule] = blocks("docs/schedules.md", "yaml")
    Path(tmp_path, "stages.yaml").write_text(schedule)
    small = ("data.image_size=32", "data.hole={min: 8, max: 12}", "model.settings={width: 0.1}")
    flags = ("--stages", str(tmp_path / "stages.yaml"), "--depth", "1")
    done = launch("single", 1, "-m", "hvd_gan.audit", *flags, *small, "batch=2")
    assert done.code == 0, done.output
    assert "joint/generator: completion + adversarial moves" in done.output


@pytest.mark.ranks
def test_the_model_and_the_stages_of_contributing_train(tmp_path):
    [model] = blocks("CONTRIBUTING.md", "python")
    [stages] = blocks("CONTRIBUTING.md", "yaml")
    Path(tmp_path, "my_gan.py").write_text(model)
    config = Path(tmp_path, "my.yaml")
    config.write_text(f"model: {{build: 'my_gan:build'}}\n{stages}")
    settings = (
        "batch=4",
        "data={source: digits, image_size: 32}",
        "evaluation.samples=0",
        "stages.warm_up.steps=3",
        "stages.joint.steps=3",
    )
    run = ("-m", "hvd_gan.train", "--config", str(config), "--run", str(tmp_path / "run"))
    done = launch("single", 1, *run, *settings, python_path=tmp_path)
    assert done.code == 0, done.output
    assert (tmp_path / "run" / "checkpoints" / "step-00000006").is_dir()
