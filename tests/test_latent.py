"""The pictures of a latent space, of a made-up model whose encoder takes the mean color."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from hvd_gan import latent, latent_pictures
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import load
from hvd_gan.engine.checkpoint_files import State, seal
from hvd_gan.labels import NamedImages, read_labels
from hvd_gan.latent_space import LatentSpace, attribute_vector, between
from hvd_gan.run_folder import RunFolder, save_settings
from tests.launch import launch

SIZE = 16
# A small image, enlarged to 64 pixels, with a margin of 2 on each side.
CELL = 64 + 4


def paint(path, color):
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (20, 24), color).save(path)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Forty images, of which every fourth is red and the others blue."""
    folder = tmp_path_factory.mktemp("images")
    lines = ["image,red,size"]
    for number in range(40):
        red = number % 4 == 0
        paint(folder / f"{number:02d}.png", (200, 0, 20) if red else (0, 0, number + 100))
        lines.append(f"{number:02d}.png,{1 if red else -1},3")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def make_run(path, images, build="tests.models.plain_space:build", own="{}"):
    """A run's folder: its settings, and a checkpoint of a model with one variable."""
    data = f"data={{path: '{images}', image_size: {SIZE}, hole: {{min: 2, max: 4}}, held_out: 0.2}}"
    model = f"model={{build: '{build}', settings: {own}}}"
    settings, _ = load(None, (), [data, model, "data.mean_color=[0, 0, 0]"])
    path.mkdir()
    save_settings(RunFolder(path), settings)
    checkpoint = path / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        scale = tf.compat.v1.get_variable("encoder/scale", initializer=3.0)
        session.run(scale.initializer)
        tf.compat.v1.train.Saver([scale]).save(session, str(checkpoint / "variables"))
    state = State(step=1, stage="s", stage_step=1, schedule=(("s", 1),), ranks=1, images="i")
    (checkpoint / "state.json").write_text(state.model_dump_json())
    (checkpoint / "checkpoint").unlink()  # The Saver's own note of what is newest.
    seal(checkpoint)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, images):
    return make_run(tmp_path_factory.mktemp("runs") / "run", images)


@pytest.fixture(scope="module")
def space(run):
    return LatentSpace(run)


def picture(run, *arguments):
    path = latent.write(latent.parser().parse_args(latent.joined([str(run), *arguments])))
    return np.asarray(Image.open(path))


def cell(picture, row, column):
    """The color of one small image in a picture."""
    return picture[row * CELL + CELL // 2, column * CELL + CELL // 2].astype(int)


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(tmp_path, images, capsys):
    run = make_run(tmp_path / "run", images)
    newer = run / "checkpoints" / "step-00000002"
    shutil.copytree(run / "checkpoints" / "step-00000001", newer)
    picture(run, "sample", "--count", "4")
    assert "warning: step-00000002 is damaged: state.json is that of step 1" in (
        capsys.readouterr().err
    )
    assert newer.is_dir()
    (run / "checkpoints" / "step-00000001" / "variables.index").unlink()
    with pytest.raises(ConfigError, match="none is good"):
        LatentSpace(run)


def test_a_picture_of_no_known_kind_is_refused_and_none_is_half_written(run, tmp_path):
    with pytest.raises(ValueError, match=r"--out .*: pictures are not written as \.doc"):
        picture(run, "sample", "--count", "4", "--out", str(tmp_path / "a.doc"))
    picture(run, "sample", "--count", "4", "--out", str(tmp_path / "a.jpg"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jpg"]


def test_encoding_and_decoding_go_through_the_model_in_any_number(space):
    images = np.random.default_rng(0).random((70, SIZE, SIZE, 3), np.float32)
    points = space.encode(images)
    np.testing.assert_allclose(points, 3 * images.mean(axis=(1, 2)), rtol=1e-5)
    decoded = space.decode(points)
    assert decoded.shape == (70, SIZE, SIZE, 3)
    np.testing.assert_allclose(decoded[:, 3, 5], images.mean(axis=(1, 2)), rtol=1e-5)


def test_random_points_are_the_seeds_own(space):
    points = space.draw(1000, 4)
    assert points.shape == (1000, 3) and abs(points.std() - 1) < 0.05
    np.testing.assert_array_equal(points, space.draw(1000, 4))
    assert not np.array_equal(points, space.draw(1000, 5))


@pytest.mark.parametrize(("count", "height", "width"), [(1, 1, 1), (5, 2, 3), (64, 8, 8)])
def test_samples_fill_a_square(run, count, height, width):
    found = picture(run, "sample", "--count", str(count), "--seed", "3")
    assert found.shape == (height * CELL, width * CELL, 3)


def test_reconstructions_stand_beside_their_images(run, images, tmp_path):
    out = tmp_path / "new" / "a.png"
    files = [str(images / "00.png"), str(images / "01.png")]
    found = picture(run, "reconstruct", *files, "--out", str(out))
    assert out.exists() and found.shape == (2 * CELL, 2 * CELL, 3)
    for row, color in enumerate([(200, 0, 20), (0, 0, 101)]):
        for column in (0, 1):
            assert abs(cell(found, row, column) - color).max() <= 1


def test_without_files_held_out_images_are_reconstructed(run):
    found = picture(run, "reconstruct", "--count", "4")
    assert found.shape == (4 * CELL, 2 * CELL, 3)


def test_a_walk_leads_from_one_image_to_the_other(run, images):
    ends = (str(images / "00.png"), str(images / "01.png"))
    found = picture(run, "walk", "--from", ends[0], "--to", ends[1], "--steps", "5")
    assert found.shape == (CELL, 5 * CELL, 3)
    assert abs(cell(found, 0, 0) - (200, 0, 20)).max() <= 1
    assert abs(cell(found, 0, 4) - (0, 0, 101)).max() <= 1
    assert picture(run, "walk", "--from", "1", "--to", "2").shape == (CELL, 8 * CELL, 3)


def test_the_way_between_points_is_an_arc_with_lengths_between_theirs():
    start, end = np.array([2.0, 0.0, 0.0]), np.array([0.0, 4.0, 0.0])
    points = between(start, end, 3)
    np.testing.assert_allclose(points[[0, -1]], [start, end], atol=1e-12)
    # Half of a right angle, at the mean of the lengths.
    np.testing.assert_allclose(points[1], 3 * np.array([1, 1, 0]) / np.sqrt(2))


@pytest.mark.parametrize("end", [np.zeros(3), np.array([2.0, 4, 6]), np.array([-1.0, -2, -3])])
def test_where_there_is_no_arc_the_way_is_straight(end):
    start = np.array([1.0, 2, 3])
    np.testing.assert_allclose(between(start, end, 3)[1], (start + end) / 2)


def test_an_attribute_is_a_difference_of_means():
    having, lacking = np.array([[1.0, 2], [3, 4]]), np.array([[1.0, 1]])
    np.testing.assert_allclose(attribute_vector(having, lacking), [1, 2])


def test_an_attribute_is_added_at_each_strength(run, images, space):
    labels = images / "labels.csv"
    found = picture(
        run, "attribute", "--labels", str(labels), "--name", "red",
        "--image", str(images / "01.png"), "--strengths", "-1,0,0.5",
    )  # fmt: skip
    assert found.shape == (CELL, 4 * CELL, 3)
    blue = np.mean([number + 100 for number in range(40) if number % 4])
    vector = np.array([200, 0, 20]) - np.array([0, 0, blue])
    plain = np.array([0, 0, 101])
    for column, strength in ((0, 0), (1, -1), (2, 0), (3, 0.5)):
        expected = np.clip(plain + strength * vector, 0, 255)
        assert abs(cell(found, 0, column) - expected).max() <= 1


def test_only_as_many_labelled_images_are_read_as_was_asked_for(space, images, monkeypatch):
    read = []
    monkeypatch.setattr(
        NamedImages, "read", lambda self, names: read.append(names) or np.ones((1, SIZE, SIZE, 3))
    )
    latent_pictures.attribute(space, images / "labels.csv", "red", [], [1.0], most=2)
    assert read == [["00.png", "04.png"], ["01.png", "02.png"]]


def test_images_are_known_by_the_sources_names_and_by_paths(space, images, tmp_path):
    paint(tmp_path / "mine.png", (10, 20, 30))
    known = NamedImages(space.settings.data, tmp_path)
    found = known.read(["00.png", "mine.png"])
    assert found.shape == (2, SIZE, SIZE, 3)
    np.testing.assert_allclose(found[:, 0, 0] * 255, [(200, 0, 20), (10, 20, 30)], atol=1e-4)
    with pytest.raises(ConfigError, match=r"other\.png: no such file"):
        known.read(["other.png"])


def test_images_of_an_array_are_known_by_their_numbers(space, tmp_path):
    array = np.arange(9, dtype=np.uint8)[:, None, None] * np.ones((1, 20, 20), np.uint8)
    np.save(tmp_path / "a.npy", array)
    data = space.settings.data.model_copy(
        update={"source": "arrays", "path": tmp_path / "a.npy", "held_out": 0.4}
    )
    found = NamedImages(data, tmp_path).read([str(number) for number in range(9)])
    np.testing.assert_allclose(found[:, 0, 0, 0] * 255, np.arange(9), atol=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no such column"),
        ("image,read\na,1\n", "did you mean 'read'?"),
        ("image,red\na,1\nb,2\n", r":3: red is '2'; 1 or 0 are read"),
        ("image,red\na,1\nb\n", r":3: red is None"),
        ("image,red\na,1\n\nb,yes\n", "all are alike"),
    ],
)
def test_labels_that_cannot_serve_are_refused(tmp_path, text, said):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_labels(tmp_path / "labels.csv", "red")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_labels_are_read_in_every_spelling(tmp_path):
    (tmp_path / "labels.csv").write_text("image, red\na,1\nb,-1\nc, TRUE\nd,\n\ne,no\n")
    expected = {"a": True, "b": False, "c": True, "d": False, "e": False}
    assert read_labels(tmp_path / "labels.csv", "red") == expected
    with pytest.raises(ConfigError, match="cannot be read"):
        read_labels(tmp_path / "missing.csv", "red")


def test_another_model_a_missing_checkpoint_and_no_run_are_told(images, tmp_path):
    other = make_run(tmp_path / "other", images, "hvd_gan.models.glcic:build", "{patch_size: 8}")
    with pytest.raises(ConfigError, match="has no latent space; this is for a VAE-GAN"):
        LatentSpace(other)
    vae_gan = make_run(tmp_path / "changed", images, "hvd_gan.models.vae_gan:build")
    with pytest.raises(ConfigError, match="that the model has"):
        LatentSpace(vae_gan)
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        LatentSpace(tmp_path / "nothing")


@pytest.mark.ranks
def test_the_command_writes_a_picture_or_one_line(run, tmp_path):
    out = tmp_path / "grid.png"
    done = launch("single", 1, "-m", "hvd_gan.latent", str(run), "sample", "--out", str(out))
    assert done.code == 0 and done.last_line == str(out), done.output
    assert Image.open(out).size == (8 * CELL, 8 * CELL)
    for checkpoint in (run / "checkpoints").iterdir():
        checkpoint.rename(tmp_path / "moved")
    done = launch("single", 1, "-m", "hvd_gan.latent", str(run), "sample")
    assert done.code == 2
    assert done.last_line == f"hvd_gan: {run}: has no checkpoint yet; train it first"
