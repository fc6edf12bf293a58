"""How an environment is mended: by install.sh, unless something outside of it is in the way."""

from __future__ import annotations

import os
import re
import shlex
import site
import sys
from dataclasses import dataclass
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
    script = shlex.quote(str(SCRIPT)) if SCRIPT.is_file() else "./install.sh"
    if made := made_for():
        gpu = "GPU=1 " if made.gpu else ""
        variables = f"VENV={shlex.quote(sys.prefix)} TF={made.tensorflow} {gpu}"
        # With its stamp in place, install.sh takes the environment for whole.
        return f"rm {shlex.quote(str(STAMP))}; {variables}{script}"
    return f"{script}, then . .venv/bin/activate"


def rebuild() -> str:
    """What to do about a Horovod that was built wrong: install.sh would take the same wheel."""
    made, again = made_for(), repair("horovod")
    if made is None or outside("horovod"):
        return again
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(os.environ.get("HVD_GAN_CACHE") or os.path.join(base, "hvd_gan"))
    # Between them stand Horovod's version and what CUDA it was built with, behind them the C
    # library and the recipe.
    name = (
        f"horovod-*-tf{made.tensorflow}-{'gpu-*' if made.gpu else 'cpu'}"
        f"-python{made.python.rpartition('.')[0]}-{made.mpi}-{os.uname().machine}-*"
    )
    if not any(cache.glob(name)):
        return again
    return f"rm -r {shlex.quote(str(cache))}/{name}; {again}"


@dataclass(frozen=True)
class MadeFor:
    """What install.sh has made this environment for: versions, and an MPI as it names them."""

    python: str
    tensorflow: str
    gpu: bool
    mpi: str


def made_for() -> MadeFor | None:
    """What the stamp says; None without one, or if it is of no kind that is known."""
    try:
        line = STAMP.read_text().partition("\n")[0]
    except OSError:
        return None
    found = re.search(r", Python (\S+), tensorflow(\S*) (\S+), (\S+)$", line)
    return MadeFor(found[1], found[3], "cuda" in found[2], found[4]) if found else None


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
