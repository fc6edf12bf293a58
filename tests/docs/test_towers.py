"""The page on towers says what happens: its code prints its output, its commands work."""

from __future__ import annotations

import re
import shlex

import pytest

from hvd_gan import train
from tests.launch import ROOT, launch

PAGE = (ROOT / "docs" / "towers.md").read_text()
# The language of each block and what is in it, in order.
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ") and "-m" in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a reader has after typing the page: `my_gan.py`, `stages.yaml` and `my.yaml`."""
    folder = tmp_path_factory.mktemp("reader")
    model = [text for kind, text in BLOCKS if kind == "python" and text.startswith("# my_gan.py")]
    stages, lines = (text for kind, text in BLOCKS if kind == "yaml")
    (folder / "my_gan.py").write_text("".join(model))
    (folder / "stages.yaml").write_text(stages)
    (folder / "my.yaml").write_text(stages + lines)
    return folder


def words(command: str, folder) -> list[str]:
    """A command of the page from `-m` on, with its files in a folder."""
    parts = shlex.split(command)
    return [
        str(folder / part) if part.endswith(".yaml") else part
        for part in parts[parts.index("-m") :]
    ]


def comments_at_the_end(code: str) -> str:
    """What a block says that it prints."""
    [comments] = re.findall(r"(?:^# .*\n)*\Z", code, re.MULTILINE)[:1]
    return comments.replace("# ", "")


def test_the_code_runs_in_order_and_prints_what_it_says(capsys):
    names: dict = {}
    code = [text for kind, text in BLOCKS if kind == "python"]
    for text in code:
        exec(compile(text, "docs/towers.md", "exec"), names)
        assert capsys.readouterr().out.split() == comments_at_the_end(text).split()
    assert sum(bool(comments_at_the_end(text)) for text in code) == 5


@pytest.mark.ranks
def test_the_audit_accepts_the_schedule(folder):
    command = words(COMMANDS[0], folder)
    done = launch("single", 1, *command, python_path=folder)
    assert done.code == 0, done.output
    [fine] = [line.split() for line in done.output.splitlines() if line.startswith("  fine")]
    assert fine[-3:] == ["UNREACHED", "frozen", "trained"]


@pytest.mark.ranks
def test_the_schedule_trains(folder):
    assert COMMANDS[1].startswith("horovodrun -np 8 python -m hvd_gan.train ")
    command = words(COMMANDS[1], folder)
    train.parser().parse_intermixed_args(command[2:])
    short = [f"stages.{stage}.steps=2" for stage in ("completion", "discriminator", "joint")]
    data = ("data={source: digits, path: null, image_size: 32}", "evaluation.samples=0", "batch=4")
    run = ("--run", str(folder / "run"), *short, *data, "verify=true")
    done = launch("single", 1, *command, *run, python_path=folder)
    assert done.code == 0, done.output
    assert (folder / "run" / "checkpoints" / "step-00000006").is_dir()
