"""How an environment is mended: by install.sh, which has to be told if it believes all is well."""

from __future__ import annotations

import sys
from pathlib import Path

STAMP = Path(sys.prefix) / "install.stamp"
SCRIPT = Path(__file__).parents[2] / "install.sh"


def _repair() -> str:
    script = str(SCRIPT) if SCRIPT.is_file() else "./install.sh (or make setup)"
    if STAMP.is_file():
        # With its stamp in place, install.sh takes the environment for whole.
        return f"rm {STAMP}; {script}"
    return f"{script}, then . .venv/bin/activate"


REPAIR = _repair()
