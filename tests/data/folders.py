"""Folders of small images, and what opening them gives."""

import os

import pytest
from PIL import Image

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import open_source


def settings_of(path, **more):
    """Settings that read a folder, and hold nothing out unless told to."""
    return DataSettings(source="folder", path=path, **{"held_out": 0.0, **more})


def fill(folder, *names):
    """Writes small images of these names, each of another color, with their folders."""
    for number, name in enumerate(names):
        path = os.path.join(os.fsencode(folder), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            Image.new("RGB", (9, 8), (number, 0, 0)).save(file, "PNG")


def names_of(source):
    """The names of all images, in their order."""
    return [source.name(index) for index in range(len(source))]


def error_of(settings, split="train"):
    """What opening the source is refused with: one line."""
    with pytest.raises(ConfigError) as caught:
        open_source(settings, split)
    assert "\n" not in str(caught.value)
    return str(caught.value)
