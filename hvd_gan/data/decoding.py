"""From an image file to upright RGB, whatever its format, mode and state."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import warnings
from collections.abc import Callable
from io import BufferedReader

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from hvd_gan.data.source import Unreadable, reason_of

# Only these: Pillow knows more, among them formats that run other programs.
FORMATS = ("JPEG", "PNG", "BMP", "DIB", "WEBP", "GIF", "TIFF")
EXTENSIONS = ("jpg", "jpeg", "png", "bmp", "webp", "gif", "tif", "tiff")
ORIENTATION = 0x0112
JPEG_REDUCTION_GAP = 2
# Some formats are read as a whole, or have parts of any length around the picture: a file may be as
# large as the most pixels take up uncompressed, with 16 bits and an alpha channel; and a little one
# as large as this.
BYTES_PER_PIXEL = 8
SMALL_FILE = 64 * 2**20

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
    profiles are ignored. An image of more than `max_pixels` is refused before it is decoded, and so
    is a file that is larger than such an image could be, or that is no regular file: a pipe would
    let us wait for ever.
    With `short_side`, a JPEG may come smaller than it is, but its short side stays at least twice
    as long as that: large photographs decode several times faster.
    Raises Unreadable, with `name`, for whatever is wrong with the file.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            _check_kind_and_size(file, max_pixels)
            return _decode(file, max_pixels, short_side)
    except Exception as error:
        # Pillow's decoders raise nearly every built-in exception on broken files.
        raise Unreadable(name, _reason(error)) from error


def quiet_pillow(max_pixels: int) -> None:
    """Silences Pillow's warnings on odd files, and lifts its own limit of pixels up to ours."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    _quiet_libtiff()
    if Image.MAX_IMAGE_PIXELS is not None:
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, max_pixels)


def _quiet_libtiff() -> None:
    """Keeps libtiff from writing to the screen whenever a file is damaged: Pillow's error says it.

    It has no other switch than a call into the library, where that is.
    """
    with contextlib.suppress(OSError, AttributeError):
        with open("/proc/self/maps") as maps:
            libraries = {line.split(maxsplit=5)[-1].strip() for line in maps if "libtiff" in line}
        for library in libraries:
            ctypes.CDLL(library).TIFFSetErrorHandler(None)


def _open_at_once(path: str, flags: int) -> int:
    # Opening a pipe that nobody writes to would wait. Regular files do not know the difference.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _check_kind_and_size(file: BufferedReader, max_pixels: int) -> None:
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        raise _RefusedError("not a regular file")
    if not file.peek(1):
        raise _RefusedError("empty file")
    limit = max(SMALL_FILE, BYTES_PER_PIXEL * max_pixels)
    if about.st_size > limit:
        raise _RefusedError(
            f"a file of {about.st_size:,} bytes, more than an image of data.max_pixels="
            f"{max_pixels} can take ({limit:,})"
        )


def _decode(file: BufferedReader, max_pixels: int, short_side: int | None) -> NDArray[np.uint8]:
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


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if isinstance(error, Image.DecompressionBombError):
        return "more pixels than data.max_pixels allows"
    if isinstance(error, OSError | MemoryError):
        return reason_of(error)
    text = " ".join(str(error).split())
    return text if isinstance(error, _RefusedError) else f"{type(error).__name__}: {text}"
