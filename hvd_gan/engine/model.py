"""Finds a model by its import path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.graph import Build


@dataclass(frozen=True)
class Model:
    """A model's function, and the pydantic model of its settings if it `takes` one."""

    build: Build
    settings_type: type[BaseModel] | None

    def settings(self, values: dict[str, Any]) -> Any:
        """The model's settings in its own type; the plain mapping if it has none."""
        return self.settings_type.model_validate(values) if self.settings_type else values


def takes(settings_type: type[BaseModel]) -> Callable[[Build], Build]:
    """Says of a model's function what its settings are: `@takes(MySettings)`."""

    def mark(build: Build) -> Build:
        setattr(build, "settings", settings_type)  # noqa: B010
        return build

    return mark


def find_model(path: str) -> Model:
    """The model at `package.module:function`, from an installed package or the current folder.

    Raises ConfigError where there is none.
    """
    module_name, _, function_name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that the model itself imports may be missing: that is another error.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"model.build: there is no module {error.name!r}; install its package, or start from "
            "the folder that holds it"
        ) from None
    build = getattr(module, function_name, None)
    if not callable(build):
        raise ConfigError(f"model.build: {module_name} has no function {function_name!r}")
    return Model(build, getattr(build, "settings", None))
