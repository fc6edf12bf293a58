"""Models are found by their import path."""

from __future__ import annotations

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.model import find_model
from tests.models import tiny


def test_a_model_brings_the_type_of_its_settings():
    model = find_model("tests.models.tiny:build")
    assert model.build is tiny.build
    assert model.settings({"alpha": 0.3}) == tiny.TinySettings(alpha=0.3)


def test_a_model_without_a_type_gets_the_plain_settings():
    assert find_model("tests.models.broken:depends_on_rank").settings({"a": 1}) == {"a": 1}


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
