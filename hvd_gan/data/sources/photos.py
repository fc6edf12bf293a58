"""Ten photographs, CC0 or in the public domain, from the package scikit-image.

Enough to see a model learn, to test and to time; too few to judge one by. Two are held out. Their
origins and licences stand in NOTICE.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from hvd_gan.config import DataSettings
from hvd_gan.data.decoding import quiet_pillow, read_image
from hvd_gan.data.package_file import package_file
from hvd_gan.data.source import Image, Source, Split

CURE = "pip install scikit-image==0.26.0"
PHOTOS: dict[Split, tuple[str, ...]] = {
    "train": (
        "astronaut.png",
        "brick.png",
        "camera.png",
        "coffee.png",
        "grass.png",
        "gravel.png",
        "hubble_deep_field.jpg",
        "retina.jpg",
    ),
    "held_out": ("chelsea.png", "rocket.jpg"),
}


class Photos:
    """Photographs by their paths. They are few, so they stay in memory once decoded."""

    def __init__(self, paths: list[Path], settings: DataSettings) -> None:
        self._paths = paths
        self._settings = settings
        self._decoded: dict[int, Image] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int) -> Image:
        # Two threads may both decode a photo that is not here yet; they get the same result.
        if index not in self._decoded:
            path, short_side = self._paths[index], self._settings.scale_range[1]
            image = read_image(path, path.name, self._settings.max_pixels, short_side)
            image.flags.writeable = False
            self._decoded[index] = image
        return self._decoded[index]

    def name(self, index: int) -> str:
        return self._paths[index].name

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for path in self._paths:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()


def open_source(settings: DataSettings, split: Split) -> Source:
    """One split of the photographs. Raises ConfigError if the package is missing."""
    quiet_pillow(settings.max_pixels)
    names = PHOTOS[split]
    return Photos([package_file("photos", "skimage", f"data/{n}", CURE) for n in names], settings)
