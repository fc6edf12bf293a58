"""Sources made up for tests, and settings for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from hvd_gan.config import DataSettings
from hvd_gan.data.source import Unreadable


class Numbered:
    """Plain images, 8x8, whose red and green say their index; those in `broken` are unreadable."""

    def __init__(self, count: int, broken: Collection[int] = ()) -> None:
        self.count = count
        self.broken = broken

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> np.ndarray:
        if index in self.broken:
            raise Unreadable(self.name(index), "made to be broken")
        return np.full((8, 8, 3), (index % 256, index // 256, 7), np.uint8)

    def name(self, index: int) -> str:
        return f"number {index}"

    def fingerprint(self) -> str:
        return f"numbered {self.count}"


def numbers(images: np.ndarray) -> list[int]:
    """Which of Numbered's images these are: uint8 or float [..., 8, 8, 3]."""
    corner = np.asarray(images)[..., 0, 0, :].reshape(-1, 3)
    if corner.dtype != np.uint8:
        corner = np.rint(corner * 255).astype(int)
    return [int(red) + 256 * int(green) for red, green, _ in corner]


@pytest.fixture
def numbered() -> type[Numbered]:
    return Numbered


@pytest.fixture
def which() -> Any:
    return numbers


@pytest.fixture
def tiny() -> DataSettings:
    return DataSettings.model_validate(
        {"image_size": 8, "hole": {"min": 2, "max": 4}, "mean_color": (0.1, 0.2, 0.3)}
    )
