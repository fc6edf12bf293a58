"""The look at some images before a run."""

import numpy as np
import pytest
from PIL import Image

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import open_source
from hvd_gan.data.survey import glance, mean_color


def test_mean_color_is_the_mean_of_the_images_means(tmp_path):
    Image.new("RGB", (40, 10), (255, 0, 51)).save(tmp_path / "a.png")
    Image.new("RGB", (10, 10), (0, 102, 51)).save(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes(b"broken")
    settings = DataSettings(path=tmp_path, held_out=0, max_unreadable=0.5)
    source = open_source(settings, "train")
    assert mean_color(source, settings) == (0.5, 0.2, 0.2)
    assert mean_color(source, settings, threads=3) == (0.5, 0.2, 0.2)


def test_mean_color_takes_evenly_spaced_images(numbered, tiny):
    asked = []
    source = numbered(100)
    source.read = lambda index: asked.append(index) or np.full((1, 1, 3), index, np.uint8)
    assert mean_color(source, tiny, limit=4) == (round(37.5 / 255, 6),) * 3
    assert asked == [0, 25, 50, 75]


def test_mean_color_of_nothing_readable_is_told(numbered, tiny):
    for source in (numbered(2, broken=range(2)), numbered(0)):
        with pytest.raises(ConfigError, match="no image can be read"):
            mean_color(source, tiny.model_copy(update={"max_unreadable": 1.0}))


def test_more_unreadable_images_than_the_share_are_refused_before_the_run(numbered, tiny):
    some = tiny.model_copy(update={"max_unreadable": 0.2})
    mean_color(numbered(10, broken={1, 2}), some)
    glance(numbered(10, broken={1, 2}), some)
    said = r"data\.max_unreadable: 3 of 10 images cannot be read.*0\.2; the first is number 1: made"
    with pytest.raises(ConfigError, match=said):
        mean_color(numbered(10, broken={1, 2, 3}), some)
    with pytest.raises(ConfigError, match=said.replace("images", "held-out images")):
        glance(numbered(10, broken={1, 2, 3}), some)
    glance(numbered(0), some)
