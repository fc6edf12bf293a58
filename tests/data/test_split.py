"""The split into training and held-out images is stable, and both sides get what they need."""

import pytest

from hvd_gan.data.source import open_source
from tests.data.folders import error_of, fill, names_of, settings_of


def test_the_split_is_disjoint_complete_and_about_the_asked_share(tmp_path):
    fill(tmp_path, *(f"{number}.png" for number in range(400)))
    settings = settings_of(tmp_path, held_out=0.25)
    train, held_out = (set(names_of(open_source(settings, side))) for side in ("train", "held_out"))
    assert not train & held_out and len(train | held_out) == 400
    assert 70 < len(held_out) < 130


def test_the_split_stays_when_files_are_added(tmp_path):
    fill(tmp_path, *(f"{number}.png" for number in range(100)))
    settings = settings_of(tmp_path, held_out=0.3)
    before = set(names_of(open_source(settings, "held_out")))
    fill(tmp_path, *(f"new/{number}.png" for number in range(100)))
    after = set(names_of(open_source(settings, "held_out")))
    assert {name for name in after if not name.startswith("new/")} == before


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_of_two_images_or_more_both_sides_get_one(tmp_path, share):
    for count in (2, 3, 10):
        folder = tmp_path / str(count)
        fill(folder, *(f"{number}.png" for number in range(count)))
        settings = settings_of(folder, held_out=share)
        sizes = [len(open_source(settings, side)) for side in ("train", "held_out")]
        assert sorted(sizes) == [1, count - 1]


def test_one_image_is_trained_on_and_nothing_is_held_out(tmp_path):
    fill(tmp_path, "a.png")
    for share in (0.02, 0.999999):
        settings = settings_of(tmp_path, held_out=share)
        assert len(open_source(settings, "train")) == 1
        assert len(open_source(settings, "held_out")) == 0


def test_all_may_be_held_out_to_evaluate_but_not_to_train(tmp_path):
    fill(tmp_path, "a.png", "b.png")
    settings = settings_of(tmp_path, held_out=1.0)
    assert len(open_source(settings, "held_out")) == 2
    assert "data.held_out: 1.0 holds back all 2 images" in error_of(settings)
    assert len(open_source(settings_of(tmp_path), "held_out")) == 0
