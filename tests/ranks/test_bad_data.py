"""Bad files, files that go away, and storage that is in trouble, under real ranks."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest

from tests.data import zoo
from tests.launch import Started, launch, train, trained
from tests.ranks.runs import values

pytestmark = pytest.mark.ranks
SIZES = ("data.hole={min: 4, max: 8}", "data.held_out=0")
COLOR = "data.mean_color=[0.5, 0.5, 0.5]"


def pictures(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        zoo.good(folder / f"{number:02d}.png", number)
    return folder


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """Seventeen bad files, eight odd ones and a dozen pictures, and the bad ones' names."""
    folder = tmp_path_factory.mktemp("data") / "zoo"
    names = zoo.fill(folder)
    zoo.fill_odd(folder / "odd")
    return pictures(folder, 12), names


def test_a_zoo_is_trained_on_and_each_bad_file_is_named_once(animals, tmp_path):
    folder, names = animals
    settings = ("--data", str(folder), *SIZES, "data.max_unreadable=0.5")
    done = train("mpirun", 2, tmp_path / "run", *settings)
    assert done.code == 0, done.output
    log = (tmp_path / "run" / "log.txt").read_text()
    for name in names:
        assert log.count(f" so far: {name}: ") == 1, log
    assert f"{len(names)} so far" in log
    # Three at once, after one stage or another.
    assert done.output.count("skipped an unreadable image") <= 9, done.output
    assert "more; log.txt names them all" in done.output


@pytest.mark.parametrize("launcher", ["mpirun", "gloo"])
def test_a_zoo_above_the_share_is_refused_in_one_line(animals, launcher, tmp_path):
    folder, _ = animals
    # Where the color is not measured, the images are first looked at while training.
    settings = (COLOR,) if launcher == "gloo" else ()
    done = train(launcher, 2, tmp_path / "run", "--data", str(folder), *SIZES, *settings)
    # Plain horovodrun says 1 whatever its ranks say.
    assert done.code in ((2,) if launcher == "mpirun" else (1, 2)), done.output
    assert "data.max_unreadable: " in done.last_line, done.output
    assert "of 37 images cannot be read, more than the allowed share of 0.01" in done.last_line
    # horovodrun has a traceback of its own.
    assert launcher == "gloo" or "Traceback" not in done.output


def test_files_that_vanish_or_shrink_in_mid_run_are_skipped_and_resuming_goes_on(tmp_path):
    folder, run = pictures(tmp_path / "images", 20), tmp_path / "run"
    settings = ("--data", str(folder), *SIZES, "data.max_unreadable=0.2", "checkpoints.every=100")
    steps = "stages.completion.steps="
    with Started("mpirun", run, *settings, f"{steps}600") as job:
        (folder / "03.png").unlink()
        os.truncate(folder / "11.png", 300)
        assert job.wait() == 0, job.output
    log = (run / "log.txt").read_text()
    assert log.count("03.png: no such file or directory") == 1
    assert log.count("11.png: image file is truncated") == 1
    zoo.good(folder / "new.png", 77)
    done = train("mpirun", 2, run, *settings, f"{steps}600", "stages.joint.steps=9")
    assert done.code == 0, done.output
    said = "images: since the run began, gone: 1, of another size: 1, new and not used: 1"
    assert said in done.output and "resumed after step 607" in done.output
    done = train("mpirun", 2, run, *settings, "data.max_unreadable=0.05", "stages.joint.steps=12")
    assert done.code == 2
    assert "of the 20 images that the run began with, gone: 1, of" in done.last_line, done.output


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount")
def test_a_disk_that_goes_away_in_mid_run_ends_it_with_one_line(tmp_path):
    disk, run = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=False).returncode == 0
    if not mounted:
        pytest.skip("needs the right to mount")
    try:
        folder = pictures(disk / "images", 20)
        settings = ("--data", str(folder), *SIZES, "stages.completion.steps=100000")
        with Started("mpirun", run, *settings) as job:
            subprocess.run(["umount", "--lazy", disk], check=True)
            assert job.wait() not in (0, 2), job.output
    finally:
        subprocess.run(["umount", "--lazy", disk], check=False)
    last = job.output.rstrip().splitlines()[-1]
    assert "data.source: folder: none of its 20 images can be read; the first is" in last, (
        job.output
    )


@pytest.fixture(scope="module")
def untroubled(tmp_path_factory):
    return trained_in_trouble("none", tmp_path_factory.mktemp("untroubled") / "run")


def trained_in_trouble(trouble, run, code=0):
    source = "data.source=tests.ranks.programs.troubled:open_source"
    os.environ["TROUBLE"] = trouble
    try:
        done = train("mpirun", 2, run, source, COLOR)
    finally:
        del os.environ["TROUBLE"]
    assert (done.code == 0) == (code == 0), done.output
    return run if code == 0 else done


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["slow", "away"])
def test_storage_in_trouble_for_a_while_on_one_rank_changes_no_bit(untroubled, trouble, tmp_path):
    run = trained_in_trouble(trouble, tmp_path / "run")
    assert "unreadable" not in (run / "log.txt").read_text()
    expected = values(untroubled)
    for name, value in values(run).items():
        np.testing.assert_array_equal(value, expected[name], name)


@pytest.mark.slow
def test_storage_that_is_gone_on_one_rank_ends_all(tmp_path):
    done = trained_in_trouble("gone", tmp_path / "run", code=1)
    assert "rank 1 of 2 on host" in done.last_line, done.output
    assert "images in a row can be read; the first is number" in done.last_line
    assert "input/output error" in done.last_line
    assert done.seconds < 60


EVALUATED = (
    "--preset",
    "demo",
    "batch=12",
    "model.settings.width=0.05",
    "data.hole={min: 10, max: 16}",
    "data.max_unreadable=0",
    "stages.completion.steps=2",
    "stages.discriminator.steps=1",
    "stages.joint.steps=1",
    "evaluation.samples=7",
)


def evaluated(run, folder, *settings):
    arguments = ("-m", "hvd_gan.train", "--run", str(run), "--data", str(folder), *EVALUATED)
    return launch("mpirun", 2, *arguments, *settings, timeout=400)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "held_out"), [(1, 0.5), (3, 0.4)])
def test_fewer_images_than_ranks_or_than_a_batch_are_trained_on(count, held_out, tmp_path):
    run = tmp_path / "run"
    done = evaluated(run, pictures(tmp_path / "images", count), f"data.held_out={held_out}")
    assert done.code == 0, done.output
    is_measured = count > 1 and held_out > 0
    assert (run / "evaluation.json").exists() == is_measured
    assert (run / "samples").exists() == is_measured
    if is_measured:
        assert len(json.loads((run / "evaluation.json").read_text())) == 3


@pytest.mark.slow
def test_held_out_images_that_cannot_be_read_are_refused_before_training(tmp_path):
    folder = pictures(tmp_path / "images", 20)
    settings = ("data.held_out=0.3", COLOR)
    # Every second image: some are held out.
    for number in range(0, 20, 2):
        (folder / f"{number:02d}.png").write_bytes(b"")
    done = evaluated(tmp_path / "run", folder, *settings)
    assert done.code == 2
    assert "held-out images cannot be read, more than the allowed share" in done.last_line
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
def test_held_out_images_that_are_skipped_are_told(tmp_path):
    folder = pictures(tmp_path / "images", 20)
    for number in range(0, 20, 2):
        (folder / f"{number:02d}.png").write_bytes(b"")
    run = tmp_path / "run"
    done = evaluated(run, folder, "data.held_out=0.3", "data.max_unreadable=0.9")
    assert done.code == 0, done.output
    assert "skipped an unreadable held-out image" in done.output
    assert "skipped an unreadable image" in done.output


@pytest.mark.slow
def test_a_run_is_the_same_on_one_rank_and_on_two_where_files_are_bad(animals, tmp_path):
    folder, _ = animals
    settings = ("--data", str(folder), *SIZES, "data.max_unreadable=0.5")
    one = trained("single", 1, tmp_path / "one", *settings)
    two = trained("mpirun", 2, tmp_path / "two", *settings)
    for name, value in values(one).items():
        np.testing.assert_allclose(value, values(two)[name], atol=2e-5, rtol=0, err_msg=name)
    named = [
        {line.partition(" so far: ")[2] for line in (run / "log.txt").read_text().splitlines()}
        for run in (one, two)
    ]
    assert named[0] == named[1] and len(named[0]) > 15
