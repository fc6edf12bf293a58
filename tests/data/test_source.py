"""Sources are found by name or by import path; whatever goes wrong is told in one line."""

import pytest

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data import source as source_module
from hvd_gan.data.source import open_source, source_names

USERS = """
from hvd_gan.data.source import Unreadable

class Mine:
    def __init__(self, settings, split):
        self.settings, self.split = settings, split
    def __len__(self):
        return 0 if self.settings.max_pixels == 1 else 5

def open_mine(settings, split):
    return Mine(settings, split)

thing = 3
"""


@pytest.fixture
def users_module(tmp_path, monkeypatch):
    package = tmp_path / "my_images"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "reading.py").write_text(USERS)
    (package / "broken.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)


def _error(source, **more):
    with pytest.raises(ConfigError) as caught:
        open_source(DataSettings(source=source, **more), "train")
    assert "\n" not in str(caught.value) and str(caught.value).startswith("data.source: ")
    return str(caught.value)


def test_the_sources_of_the_package_are_the_files_of_its_folder():
    assert source_names() == ["arrays", "digits", "folder", "photos"]
    assert callable(source_module.open_source)


def test_an_unknown_source_names_the_nearest_and_the_known_ones():
    message = _error("didgits")
    assert "did you mean 'digits'?" in message
    assert "arrays, digits, folder, photos" in message
    assert "did you mean" not in _error("xyzzy")


def test_a_users_function_is_called_with_settings_and_split(users_module):
    settings = DataSettings(source="my_images.reading:open_mine")
    for split in ("train", "held_out"):
        source = open_source(settings, split)
        assert (source.settings, source.split, len(source)) == (settings, split, 5)


def test_mistakes_in_an_import_path_are_told(users_module):
    assert "cannot import my_images.riding" in _error("my_images.riding:open_mine")
    assert "no function 'open_yours'" in _error("my_images.reading:open_yours")
    assert "no function 'thing'" in _error("my_images.reading:thing")
    assert "a_module_that_is_not_there" in _error("my_images.broken:open_mine")
    for path in (":open_mine", "..mine:open_mine", "my images:open_mine"):
        assert "does not read package.module:function" in _error(path)


def test_a_users_source_without_images_cannot_be_trained_on(users_module):
    assert "no image to train on" in _error("my_images.reading:open_mine", max_pixels=1)
