"""Imports go down only: commands, models and data, engine, cluster, settings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "hvd_gan"
# Higher layers may import lower ones. Models and data do not know each other.
LAYERS = {"commands": 3, "models": 2, "data": 2, "engine": 1, "cluster": 0, "settings": -1}
SETTINGS = {"config", "config_base", "config_files", "config_stages", "presets", "__init__"}

IMPORT = re.compile(r"\s*(import|from) \w").match


def layer_of(module: str) -> str:
    first = [*module.split("."), "__init__"][1]
    if first in LAYERS:
        return first
    return "settings" if first in SETTINGS else "commands"


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return {name for name in found if name.split(".")[0] == "hvd_gan"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_a_module_imports_nothing_above_or_beside_its_layer(path):
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    own = layer_of(module)
    for imported in imports_of(path):
        other = layer_of(imported)
        assert other == own or LAYERS[other] < LAYERS[own], f"{module} imports {imported}"


def test_no_file_is_called_what_says_nothing():
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert not names & {"utils", "util", "misc", "helpers", "common"}


def test_nothing_but_the_carrier_between_ranks_unpickles():
    loaders = {"pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        imported = {line.split()[1].split(".")[0] for line in text.splitlines() if IMPORT(line)}
        assert not imported & loaders or path.name == "carrier.py", path
        assert "allow_pickle=True" not in text, path
