"""Bad images are skipped alike on all ranks, and too many of them end the run."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.launch import slow, train

pytestmark = pytest.mark.ranks
SIZES = ("data.hole={min: 4, max: 8}", "data.held_out=0", "stages.completion.steps=20")


@pytest.fixture
def folder(tmp_path):
    """Nineteen images, and one that was cut off."""
    images = tmp_path / "images"
    images.mkdir()
    rng = np.random.default_rng(0)
    for number in range(20):
        pixels = rng.integers(0, 255, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(images / f"{number:02d}.png")
    broken = images / "07.png"
    broken.write_bytes(broken.read_bytes()[:200])
    return images


def test_a_broken_image_is_named_once_and_the_run_goes_on(folder, tmp_path):
    run = tmp_path / "run"
    done = train("mpirun", 2, run, "--data", str(folder), *SIZES, "data.max_unreadable=0.1")
    assert done.code == 0, done.output
    assert (run / "log.txt").read_text().count("skipped an unreadable image, 1 so far: 07.png") == 1


def test_more_broken_images_than_allowed_end_the_run_with_one_line(folder, tmp_path):
    done = train("mpirun", 2, tmp_path / "run", "--data", str(folder), *SIZES)
    assert done.code == 2
    assert "data.max_unreadable: 1 of 20 images cannot be read" in done.last_line, done.output


@pytest.mark.parametrize("make", [True, slow(False)], ids=["empty", "missing"])
def test_a_folder_without_images_is_one_line(make, tmp_path):
    images = tmp_path / "images"
    if make:
        images.mkdir()
    done = train("gloo", 2, tmp_path / "run", "--data", str(images), *SIZES)
    assert done.code != 0
    assert "data.path" in done.last_line and str(images) in done.last_line, done.output
