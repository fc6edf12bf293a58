"""From an image file to upright RGB, whatever its format, mode and state."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from hvd_gan.data.source import Unreadable

# Only these: Pillow knows more, among them formats that run other programs.
FORMATS = ("JPEG", "PNG", "BMP", "DIB", "WEBP", "GIF", "TIFF")
EXTENSIONS = ("jpg", "jpeg", "png", "bmp", "webp", "gif", "tif", "tiff")
ORIENTATION = 0x0112
JPEG_REDUCTION_GAP = 2

# What each EXIF orientation does to the upright image, undone.
_UPRIGHT: dict[int, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: np.rot90(image),
}


class _RefusedError(Exception):
    """An image that Pillow could read and we do not take."""


def read_image(
    path: str | bytes | os.PathLike[str], name: str, max_pixels: int, short_side: int | None = None
) -> NDArray[np.uint8]:
    """The first frame of an image file: uint8 [height, width, 3], RGB, upright.

    Transparent parts are laid over white. Sixteen bits are scaled to eight. Embedded color
    profiles are ignored. An image of more than `max_pixels` is refused before it is decoded.
    With `short_side`, a JPEG may come smaller than it is, but its short side stays at least twice
    as long as that: large photographs decode several times faster.
    Raises Unreadable, with `name`, for whatever is wrong with the file.
    """
    try:
        with open(path, "rb") as file:
            return _decode(file, max_pixels, short_side)
    except Exception as error:
        # Pillow's decoders raise nearly every built-in exception on broken files.
        raise Unreadable(name, _reason(path, error)) from error


def quiet_pillow(max_pixels: int) -> None:
    """Silences Pillow's warnings on odd files, and lifts its own limit of pixels up to ours."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if Image.MAX_IMAGE_PIXELS is not None:
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, max_pixels)


def _decode(file: BinaryIO, max_pixels: int, short_side: int | None) -> NDArray[np.uint8]:
    with Image.open(file, formats=FORMATS) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise _RefusedError(
                f"{width} x {height} pixels are more than data.max_pixels={max_pixels}"
            )
        if short_side is not None:
            least = JPEG_REDUCTION_GAP * short_side / min(width, height)
            image.draft(None, (int(width * least) + 1, int(height * least) + 1))
        image.load()
        # Asked for after loading: TIFF files are turned, and lose their tag, as they load.
        turn = _UPRIGHT.get(_orientation(image))
        pixels = _rgb(image)
    return np.ascontiguousarray(turn(pixels)) if turn else pixels


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:
        # Broken metadata is no reason to lose the picture.
        return 1


def _rgb(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode.startswith("I") or image.mode == "F":
        gray = _eight_bits(np.asarray(image))
        return np.repeat(gray[:, :, np.newaxis], 3, axis=2)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    rgb: NDArray[np.uint8] = np.array(image.convert("RGB"))
    return rgb


def _eight_bits(gray: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Whole numbers are taken to be of 16 bits; floats to lie in [0, 1] or in [0, 255]."""
    values = gray.astype(np.float32)
    low, high = float(values.min()), float(values.max())
    whole = np.issubdtype(gray.dtype, np.integer)
    most = 65535 if whole else 255
    if not 0 <= low <= high <= most:
        raise _RefusedError(f"its values, {low:g} to {high:g}, lie outside 0 to {most}")
    scale = 255 / 65535 if whole else 255 if high <= 1 else 1
    return np.rint(values * scale).astype(np.uint8)


def _reason(path: str | bytes | os.PathLike[str], error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        empty = os.path.getsize(path) == 0 if os.path.exists(path) else False
        return "empty file" if empty else "not an image, or of an unknown format"
    if isinstance(error, Image.DecompressionBombError):
        return "more pixels than data.max_pixels allows"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    lines = str(error).splitlines()
    text = lines[0] if lines else ""
    return text if isinstance(error, _RefusedError | OSError) else f"{type(error).__name__}: {text}"
