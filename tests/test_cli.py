"""`hvd-gan` hands its arguments to the modules."""

from __future__ import annotations

import importlib

import pytest

from hvd_gan import cli


def test_a_command_gets_the_rest_of_the_arguments(monkeypatch):
    seen = []
    monkeypatch.setattr("hvd_gan.train.main", lambda arguments: seen.append(arguments) or 7)
    monkeypatch.setattr("sys.argv", ["hvd-gan", "train", "--preset", "demo", "seed=1"])
    assert cli.main() == 7
    assert seen == [["--preset", "demo", "seed=1"]]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_is_a_module_with_a_main(command):
    assert callable(importlib.import_module(f"hvd_gan.{command}").main)


def test_an_unknown_command_is_refused_and_the_known_ones_are_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hvd-gan", "trian"])
    assert cli.main() == 2
    assert "no command 'trian'; there are train" in capsys.readouterr().err
