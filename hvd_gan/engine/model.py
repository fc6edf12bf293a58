"""Finds a model by its import path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.dataclasses import is_pydantic_dataclass

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import Layer
from hvd_gan.engine.graph import Build


@dataclass(frozen=True)
class Model:
    """A model's function, and the type of its settings if it `takes` one."""

    build: Build
    settings_type: type | None

    def settings(self, layer: Layer) -> Any:
        """The model's own settings in a layer, in its type; a plain mapping if it has none.

        Raises ConfigError with the place of a wrong one.
        """
        if self.settings_type is not None:
            return layer.validate(self.settings_type, "model.settings")
        return layer.validate(Settings).model.settings


def takes(settings_type: type) -> Callable[[Build], Build]:
    """Says of a model's function what its settings are: `@takes(MySettings)`.

    A pydantic model or a dataclass; a dataclass is validated too, and refuses unknown keys.
    """
    if is_dataclass(settings_type) and not is_pydantic_dataclass(settings_type):
        settings_type = pydantic_dataclass(settings_type, config=ConfigDict(extra="forbid"))

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
