"""How an environment is mended: by install.sh, unless something outside of it is in the way."""

from __future__ import annotations

import os
import site
import sys
from importlib.util import find_spec
from pathlib import Path

STAMP = Path(sys.prefix) / "install.stamp"
SCRIPT = Path(__file__).parents[2] / "install.sh"


def repair(module: str = "") -> str:
    """What to do about an environment in which a module is missing or does not load."""
    if module and (where := outside(module)):
        if where == Path(site.getusersitepackages()):
            return f"export PYTHONNOUSERSITE=1: {where} hides the environment's own"
        return f"take {where} off PYTHONPATH: it hides the environment's own"
    script = str(SCRIPT) if SCRIPT.is_file() else "./install.sh"
    if STAMP.is_file():
        # With its stamp in place, install.sh takes the environment for whole.
        return f"rm {STAMP}; {script}"
    return f"{script}, then . .venv/bin/activate"


def origin(module: str) -> Path | None:
    """A module's file, found without importing it; None if it is not installed."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None


def outside(module: str) -> Path | None:
    """The folder on the search path that a module comes from, if not from this environment."""
    file = origin(module)
    if file is None:
        return None
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    own = (Path(sys.prefix), Path(sys.base_prefix))
    return None if any(folder.is_relative_to(prefix) for prefix in own) else folder


def off_library_path(library: str) -> str:
    """What to do if LD_LIBRARY_PATH is why a library is found; empty if it is not."""
    folder = os.path.dirname(library)
    entries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    found = [
        entry for entry in entries if entry and os.path.realpath(entry) == os.path.realpath(folder)
    ]
    return f"take {found[0]} off LD_LIBRARY_PATH (or unload its module)" if found else ""
