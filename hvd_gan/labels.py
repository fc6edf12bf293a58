"""Which images have an attribute: a CSV file of labels, and the images that it names."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.decoding import read_image
from hvd_gan.data.preparation import prepare
from hvd_gan.data.source import Image, Source, Split, Unreadable, open_source

YES = ("1", "1.0", "true", "yes")
NO = ("", "0", "0.0", "-1", "-1.0", "false", "no")
SPLITS: tuple[Split, ...] = ("train", "held_out")


def read_labels(path: Path, attribute: str) -> dict[str, bool]:
    """Which images have an attribute, from a CSV file: a header, then a row an image.

    The first column names the image, each other column is an attribute: 1, true or yes; or 0, -1,
    false, no or nothing. Raises ConfigError where the file or the column is not there, a value is
    something else, or all images are alike.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            labels = dict(_rows(path, csv.reader(file), attribute))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"--labels {path}: cannot be read: {error}") from None
    if len(set(labels.values())) < 2:
        raise ConfigError(
            f"--name {attribute}: {path} needs images with it and without it; all are alike"
        )
    return labels


def _rows(path: Path, rows: Iterator[list[str]], attribute: str) -> Iterator[tuple[str, bool]]:
    header = [name.strip() for name in next(rows, [])]
    if attribute not in header[1:]:
        near = difflib.get_close_matches(attribute, header[1:], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(header[1:]) or 'none'}"
        raise ConfigError(f"--name {attribute}: {path} has no such column; {hint}")
    column = header.index(attribute, 1)
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        value = row[column].strip().lower() if column < len(row) else None
        if value is None or value not in YES + NO:
            raise ConfigError(
                f"--labels {path}:{number}: {attribute} is {value!r}; 1 or 0 are read"
            )
        yield row[0].strip(), value in YES


def read_images(paths: list[Path], data: DataSettings) -> np.ndarray:
    """Image files, prepared as held-out images are: float32 [n, size, size, 3] in [0, 1].

    Raises ConfigError where one cannot be read.
    """
    return _prepared([_file(path, data) for path in paths], data)


class NamedImages:
    """Images by the names that a CSV file gives them.

    A name is the source's own (in a folder the path below it; in an array the image's number) or a
    path, relative to the CSV file's folder.
    """

    def __init__(self, data: DataSettings, folder: Path) -> None:
        """Raises ConfigError where the run's images are not on this machine."""
        self._data = data
        self._folder = folder
        self._found: dict[str, tuple[Source, int]] = {}
        for split in SPLITS:
            source = open_source(data, split)
            self._found |= {source.name(index): (source, index) for index in range(len(source))}

    def read(self, names: list[str]) -> np.ndarray:
        """The images of some names: float32 [n, size, size, 3] in [0, 1]. Raises ConfigError."""
        return _prepared([self._read(name) for name in names], self._data)

    def _read(self, name: str) -> Image:
        source, index = self._found.get(name) or self._found.get(f"image {name}") or (None, 0)
        if source is None:
            return _file(self._folder / name, self._data)
        try:
            return source.read(index)
        except Unreadable as finding:
            raise ConfigError(str(finding)) from None


def _file(path: Path, data: DataSettings) -> Image:
    try:
        return read_image(path, str(path), data.max_pixels, data.scale_range[1])
    except Unreadable as finding:
        raise ConfigError(str(finding)) from None


def _prepared(images: list[Image], data: DataSettings) -> np.ndarray:
    return np.stack([prepare(image, None, data) for image in images]).astype(np.float32) / 255
