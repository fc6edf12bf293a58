"""The list of a run's images comes back as it was, or not at all."""

import os

import pytest
from PIL import Image

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data import begun
from hvd_gan.data.source import open_source


def test_the_listings_come_back(tmp_path):
    folder = os.fsencode(tmp_path / "images")
    os.mkdir(folder)
    for name in ("a b.png", "a\nb.png", b"\xff.png", "é.png"):
        with open(os.path.join(folder, os.fsencode(name)), "wb") as file:
            Image.new("L", (4, 4)).save(file, "PNG")
    settings = DataSettings(path=tmp_path / "images", held_out=0.5)
    sources = [open_source(settings, split) for split in ("train", "held_out")]
    begun.keep(tmp_path / "kept", sources)
    found = begun.recall(tmp_path / "kept")
    assert found == [source.listing() for source in sources]
    again = [source.as_listed(listing) for source, listing in zip(sources, found, strict=True)]
    assert [s.fingerprint() for s in again] == [s.fingerprint() for s in sources]
    assert sorted(os.listdir(tmp_path)) == ["images", "kept"]


def test_an_empty_held_out_split_comes_back(tmp_path):
    (tmp_path / "images").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "images" / "a.png")
    settings = DataSettings(path=tmp_path / "images", held_out=0)
    sources = [open_source(settings, split) for split in ("train", "held_out")]
    begun.keep(tmp_path / "kept", sources)
    again = sources[1].as_listed(begun.recall(tmp_path / "kept")[1])
    assert len(again) == 0


def test_a_source_of_fixed_images_leaves_no_list(tmp_path, numbered):
    begun.keep(tmp_path / "kept", [numbered(3), numbered(2)])
    assert begun.recall(tmp_path / "kept") == []


def test_a_damaged_list_is_told(tmp_path):
    for content in (b"", b"no list", b"x\x9cK"):
        (tmp_path / "kept").write_bytes(content)
        with pytest.raises(ConfigError, match="damaged"):
            begun.recall(tmp_path / "kept")
