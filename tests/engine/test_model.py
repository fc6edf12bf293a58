"""Models are found by their import path."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import Layer
from hvd_gan.engine.model import find_model, takes
from tests.models import tiny


def test_a_model_brings_the_type_of_its_settings():
    model = find_model("tests.models.tiny:build")
    assert model.build is tiny.build
    assert model.settings_type is tiny.TinySettings


def test_a_model_need_not_have_a_type_of_settings():
    assert find_model("tests.models.broken:depends_on_rank").settings_type is None


def test_settings_may_be_a_plain_dataclass():
    @dataclass
    class Mine:
        width: int = 3
        rate: float = 0.5

    @takes(Mine)
    def build(batch, settings, training): ...

    layer = Layer({"model": {"settings": {"width": "7"}}})
    assert layer.validate(build.settings, "model.settings") == build.settings(7, 0.5)
    assert issubclass(build.settings, Mine)
    wrong = Layer({"model": {"settings": {"widht": 7}}})
    with pytest.raises(
        ConfigError, match=r"model.settings.widht: unknown key; did you mean 'width'"
    ):
        wrong.validate(build.settings, "model.settings")


def test_a_model_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_gan.py").write_text("def build(batch, settings, training): ...\n")
    monkeypatch.chdir(tmp_path)
    assert find_model("my_own_gan:build").build.__module__ == "my_own_gan"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("no_such_package.gan:build", "there is no module 'no_such_package'"),
        ("tests.models.nothing:build", "there is no module 'tests.models.nothing'"),
        ("tests.models.tiny:bild", "tests.models.tiny has no function 'bild'"),
    ],
)
def test_a_model_that_is_not_there_is_refused(path, expected):
    with pytest.raises(ConfigError, match=expected):
        find_model(path)
