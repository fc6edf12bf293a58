"""What an image source is, and how the one that the settings name is opened.

A source is a module of `hvd_gan.data.sources`, found by its name, or a user's function, found by
its import path. There is no list to add it to.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data import sources

Image = NDArray[np.uint8]
Split = Literal["train", "held_out"]


class Unreadable(Exception):  # noqa: N818 - a finding about data, not a failure of the run
    """One image cannot be read. The run goes on with another one in its place.

    `name` is the source's name of the image, `reason` a few words for a person.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def reason_of(error: OSError | MemoryError) -> str:
    """An error of the system as a few words for a person."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    if error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return " ".join(str(error).split()) or type(error).__name__


class Source(Protocol):
    """A fixed sequence of images. All methods may be called from several threads at once."""

    def __len__(self) -> int:
        """The number of images, readable or not."""

    def read(self, index: int) -> Image:
        """Image `index`: uint8 [height, width, 3], RGB, upright.

        Raises Unreadable, from the OSError behind it if there is one, or that OSError itself:
        those that may pass are tried again (`patience`).
        """

    def name(self, index: int) -> str:
        """The name of image `index` in messages: one printable line."""

    def fingerprint(self) -> str:
        """A hash of what the source consists of, equal wherever the same data is seen."""


@runtime_checkable
class Listed(Source, Protocol):
    """A source whose images may come and go between a run's parts, such as files.

    Their order is that of a sequence of fixed length, so a run goes on with those that it began
    with, and one that has gone is an unreadable one.
    """

    def listing(self) -> bytes:
        """Which images these are, in order."""

    def as_listed(self, listing: bytes) -> Source:
        """This source with the images of an earlier listing, whether they are there or not.

        Raises ConfigError if more have gone or changed than `max_unreadable` allows.
        """


def open_source(settings: DataSettings, split: Split) -> Source:
    """The images of one split of the source that `settings.source` names.

    The train split always holds at least one image. The held-out split may be empty.
    Raises ConfigError, in one line, if the source is unknown or has nothing to offer.
    """
    source = _opener(settings.source)(settings, split)
    if split == "train" and not len(source):
        raise ConfigError(f"data.source: {settings.source} has no image to train on")
    return source


def source_names() -> list[str]:
    """The names of the sources that come with the package."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def _opener(source: str) -> Callable[[DataSettings, Split], Source]:
    if ":" in source:
        return _users_opener(source)
    names = source_names()
    if source not in names:
        near = difflib.get_close_matches(source, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"data.source: there is no source {source!r}{hint} (known: {', '.join(names)}, "
            "or package.module:function of your own)"
        )
    module = importlib.import_module(f"{sources.__name__}.{source}")
    return cast(Callable[[DataSettings, Split], Source], module.open_source)


def _users_opener(path: str) -> Callable[[DataSettings, Split], Source]:
    module_name, _, function_name = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"data.source: {path!r} does not read package.module:function")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"data.source: {path}: cannot import {module_name}: {error}") from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"data.source: {path}: {module_name} has no function {function_name!r}")
    return cast(Callable[[DataSettings, Split], Source], function)
