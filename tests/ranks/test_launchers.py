"""The demo runs under every launcher, and alone."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.launch import ROOT, TINY, command, environment, launch, slow

pytestmark = pytest.mark.ranks
SHORT = (
    "stages.completion.steps=6",
    "stages.discriminator.steps=3",
    "stages.joint.steps=3",
    "evaluation={samples: 20, every: 4}",
)


@pytest.mark.parametrize(
    ("launcher", "ranks"), [("single", 1), slow("horovodrun", 2), slow("gloo", 2), ("mpirun", 2)]
)
def test_the_demo_trains_and_leaves_a_run(launcher, ranks, tmp_path):
    run = tmp_path / "run"
    done = launch(
        launcher, ranks, "-m", "hvd_gan.train", "--preset", "demo", "--run", str(run), *SHORT
    )
    assert done.code == 0, done.output
    assert str(run) in done.last_line
    assert f"{ranks} ranks x {32 // ranks} images" in done.output.replace("1 rank x", "1 ranks x")
    assert "Traceback" not in done.output and "oneDNN" not in done.output.split("hvd_gan 0")[-1]

    assert {path.name for path in run.iterdir()} == {
        "settings.yaml",
        "lock",
        "log.txt",
        "metrics.jsonl",
        "tensorboard",
        "samples",
        "checkpoints",
        "evaluation.json",
    }
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert list(evaluation) == ["completion", "discriminator", "joint"]
    # The generator is frozen in the second stage.
    assert evaluation["completion"] == evaluation["discriminator"]
    names = [path.name for path in sorted((run / "samples").iterdir())]
    assert names == [
        "00000004-completion.png",
        "00000006-completion.png",
        "00000008-discriminator.png",
        "00000009-discriminator.png",
        "00000012-joint.png",
    ]


@pytest.mark.parametrize("launcher", [slow("horovodrun"), "mpirun"])
def test_output_that_goes_to_a_file_is_plain_and_whole(launcher, tmp_path):
    screen = tmp_path / "screen.txt"
    screen.write_text("what was there before\n")
    arguments = ("-m", "hvd_gan.train", *TINY, "--run", str(tmp_path / "run"))
    with screen.open("a") as file:
        subprocess.run(
            command(launcher, 2, *arguments),
            cwd=ROOT,
            env=environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=120,
        )
    text = screen.read_text()
    assert text.startswith("what was there before\n")
    assert "completion 5/5" in text and "\x1b[2K" not in text
