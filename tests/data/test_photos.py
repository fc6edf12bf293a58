"""The photos are scikit-image's, split by photo, and all of them stand in NOTICE."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import open_source
from hvd_gan.data.sources import photos

# As large as it takes for JPEGs to come whole.
SETTINGS = DataSettings(source="photos", image_size=1024)


def _names(split):
    source = open_source(SETTINGS, split)
    return [source.name(index) for index in range(len(source))]


def test_no_photo_is_in_both_splits():
    train, held_out = _names("train"), _names("held_out")
    assert len(train) == 8 and len(held_out) == 2
    assert not set(train) & set(held_out)


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_photos_are_as_scikit_image_gives_them(split):
    source = open_source(SETTINGS, split)
    for index in range(len(source)):
        expected = getattr(skimage.data, source.name(index).partition(".")[0])()
        if expected.ndim == 2:
            expected = np.repeat(expected[..., None], 3, axis=2)
        found = source.read(index)
        assert found.dtype == np.uint8 and found.shape == expected.shape
        assert np.abs(found.astype(int) - expected).max() <= 2


def test_every_photo_stands_in_the_notice():
    notice = (Path(__file__).parents[2] / "NOTICE").read_text()
    assert notice.startswith("hvd_gan\n")
    for name in (*photos.PHOTOS["train"], *photos.PHOTOS["held_out"]):
        assert f"  {name} " in notice


def test_the_fingerprint_tells_the_splits_apart():
    prints = [open_source(SETTINGS, side).fingerprint() for side in ("train", "train", "held_out")]
    assert prints[0] == prints[1] != prints[2]


def test_a_missing_package_is_told_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"skimage is not installed; run: pip install scikit"):
        open_source(SETTINGS, "train")
