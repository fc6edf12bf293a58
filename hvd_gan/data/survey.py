"""A look at some images of a source before the run: can they be read, and which color have they?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.reading import Reader
from hvd_gan.data.source import Source, Unreadable

MEASURED = 1000
GLANCED = 32


def mean_color(
    source: Source,
    settings: DataSettings,
    limit: int = MEASURED,
    threads: int = 1,
    beat: Callable[[], None] = lambda: None,
) -> tuple[float, float, float]:
    """The mean color of a source, RGB in [0, 1], rounded to 6 digits.

    The mean of the means of up to `limit` evenly spaced images; unreadable ones are left out.
    `beat` is called after each. Raises ConfigError if none can be read, or if more cannot than
    `settings.max_unreadable` allows.
    """
    found = _look(source, limit, threads, beat)
    unreadable = [item for item in found if isinstance(item, Unreadable)]
    check_share({item.name: item.reason for item in unreadable}, len(source), settings)
    colors = [item for item in found if not isinstance(item, Unreadable)]
    if not colors:
        first = unreadable[0] if unreadable else "there is none"
        raise ConfigError(f"data.source: no image can be read; the first: {first}")
    red, green, blue = (round(float(value), 6) for value in np.mean(colors, axis=0))
    return red, green, blue


def glance(source: Source, settings: DataSettings) -> None:
    """Tries some evenly spaced held-out images: better refused now than after a day's training.

    Raises ConfigError if more cannot be read than `settings.max_unreadable` allows.
    """
    findings = [item for item in _look(source, GLANCED, 1) if isinstance(item, Unreadable)]
    reasons = {item.name: item.reason for item in findings}
    check_share(reasons, len(source), settings, "held-out image")


def check_share(
    reasons: dict[str, str], images: int, settings: DataSettings, kind: str = "image"
) -> None:
    """Raises ConfigError if so many of a source's images are more than the set share.

    reasons: why images cannot be read, by their names. kind: what they are called in the message.
    """
    if len(reasons) > settings.max_unreadable * images:
        name, reason = min(reasons.items())
        raise ConfigError(
            f"data.max_unreadable: {len(reasons)} of {images} {kind}s cannot be read, more than "
            f"the allowed share of {settings.max_unreadable:g}; the first is {name}: {reason}"
        )


def _look(
    source: Source, limit: int, threads: int, beat: Callable[[], None] = lambda: None
) -> list[Any]:
    """For evenly spaced images each one's mean color, RGB in [0, 1], or what is wrong with it."""
    count, reader = len(source), Reader(source)
    chosen = min(limit, count)

    def color(index: int) -> Any:
        try:
            return reader.read(index).mean(axis=(0, 1)) / 255
        except Unreadable as finding:
            return finding
        finally:
            beat()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(color, (number * count // chosen for number in range(chosen))))
