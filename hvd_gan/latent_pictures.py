"""Pictures of a latent space: each is uint8 [height, width, 3], small images side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hvd_gan.config_base import ConfigError
from hvd_gan.data.held_out import HeldOut
from hvd_gan.data.source import open_source
from hvd_gan.engine.monitors.samples import grid
from hvd_gan.labels import NamedImages, read_images, read_labels
from hvd_gan.latent_space import LatentSpace, attribute_vector, between


def sample(space: LatentSpace, count: int, seed: int) -> np.ndarray:
    """Images decoded from the prior, in a square as near as may be."""
    images = space.decode(space.draw(count, seed))
    columns = math.ceil(math.sqrt(count))
    return rows([images[start : start + columns] for start in range(0, count, columns)])


def reconstruct(space: LatentSpace, paths: Sequence[Path], count: int) -> np.ndarray:
    """Images, each with its reconstruction to its right: some files, or held-out images."""
    images = _images(space, paths, count)
    return grid({"original": images, "reconstruction": space.decode(space.encode(images))})


def walk(space: LatentSpace, start: str, end: str, steps: int) -> np.ndarray:
    """A row of images on the way from one point to another.

    An end is a whole number, the seed of a point of the prior, or the path of an image.
    """
    points = between(_point(space, start), _point(space, end), steps)
    return rows([space.decode(points)])


def attribute(
    space: LatentSpace,
    labels: Path,
    name: str,
    paths: Sequence[Path],
    strengths: Sequence[float],
    most: int,
) -> np.ndarray:
    """A row for each image: itself, then decoded with an attribute added at some strengths.

    The attribute's vector is measured on at most `most` labelled images with it, and as many
    without it.
    """
    labelled = read_labels(labels, name)
    known = NamedImages(space.settings.data, labels.parent)
    having, lacking = (
        space.encode(known.read([key for key, has in labelled.items() if has == wanted][:most]))
        for wanted in (True, False)
    )
    vector = attribute_vector(having, lacking)
    images = _images(space, paths, 4)
    changed = [space.decode(point + np.outer(strengths, vector)) for point in space.encode(images)]
    return rows(
        [np.concatenate([image[None], row]) for image, row in zip(images, changed, strict=True)]
    )


def rows(images: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of images below each other; the last may be shorter, and is filled up with white.

    images: for each row float [n, height, width, channels] in [0, 1], of one size.
    """
    length = len(images[0])
    pictures = []
    for row in images:
        white = np.ones((length - len(row), *row.shape[1:]), row.dtype)
        full = np.concatenate([row, white])
        pictures.append(grid({str(place): image[None] for place, image in enumerate(full)}))
    return np.concatenate(pictures)


def _images(space: LatentSpace, paths: Sequence[Path], count: int) -> np.ndarray:
    data = space.settings.data
    if paths:
        return read_images(list(paths), data)
    source = open_source(data, "held_out")
    if not len(source):
        raise ConfigError(f"data.source: {data.source} has no held-out images; name some files")
    held_out = HeldOut(source, data, space.settings.seed)
    return held_out.batch(range(min(count, len(source))))["image"]


def _point(space: LatentSpace, end: str) -> np.ndarray:
    if end.isdecimal():
        return space.draw(1, int(end))[0]
    return space.encode(read_images([Path(end)], space.settings.data))[0]
