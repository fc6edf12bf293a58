"""What nobody trusts runs nothing: settings files here; images and arrays in tests/data."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import ROOT, environment

SOURCES = sorted((ROOT / "hvd_gan").rglob("*.py"))
# Objects between ranks of one job; nothing from a file.
MAY_UNPICKLE = {"carrier.py"}


def calls_and_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
            found |= {f"{word.arg}={ast.unparse(word.value)}" for word in node.keywords}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_unpickles_or_goes_through_a_shell(path):
    found = calls_and_imports(path)
    assert not found & {"os.system", "os.popen", "shell=True", "eval", "exec", "allow_pickle=True"}
    assert not found & {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "marshal", "shelve"}
    assert path.name in MAY_UNPICKLE or not found & {"pickle", "cloudpickle", "dill", "joblib"}


@pytest.mark.parametrize(
    "line",
    [
        "seed: !!python/object/apply:os.system ['touch {ran}']",
        "data: {{path: !!python/object/new:subprocess.Popen [[touch, {ran}]]}}",
        "data: {{source: folder, path: '$(touch {ran})'}}",
        "data: {{source: folder, path: '; touch {ran} ;'}}",
        "data: {{source: 'os:system'}}",
        "model: {{build: 'os.system(\"touch {ran}\")'}}",
    ],
)
def test_a_settings_file_runs_nothing(line, tmp_path):
    ran, config = tmp_path / "ran", tmp_path / "settings.yaml"
    config.write_text(line.format(ran=ran) + "\n")
    arguments = ("-m", "hvd_gan.train", "--config", str(config), "--run", str(tmp_path / "run"))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0, done.stderr
    assert not ran.exists()
