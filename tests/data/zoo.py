"""Bad files of every kind, under names of images, made by hand or by Pillow."""

from __future__ import annotations

import io
import os
import socket
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def good(path: Path, number: int, size: tuple[int, int] = (32, 32)) -> None:
    """A picture of noise that its number determines."""
    pixels = np.random.default_rng(number).integers(0, 255, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(path, "PNG")


def encoded(kind: str, size: tuple[int, int] = (64, 64)) -> bytes:
    """A picture of noise as a file."""
    buffer = io.BytesIO()
    pixels = np.random.default_rng(7).integers(0, 255, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, more: bytes = b"", body: bytes = b"") -> bytes:
    """A PNG file that claims a size, with further chunks before the picture's bytes."""
    head = chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
    tail = chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + more + tail


def gif(screen: tuple[int, int], frame: tuple[int, int]) -> bytes:
    """A GIF file that claims a screen and a frame of some width and height."""
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + b"\x2c" + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x02\x44\x01\x00\x3b"


def webp(width: int, height: int) -> bytes:
    """An animated WebP file that claims a canvas; its only frame is 8 x 8."""
    frame = encoded("WEBP", (8, 8))[12:]
    body = struct.pack("<6s3s3s4s", b"", b"\7", b"\7", b"") + frame
    canvas = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    parts = b"WEBPVP8X" + struct.pack("<I4s", 10, b"\2") + canvas
    parts += b"ANIM" + struct.pack("<I6s", 6, b"") + b"ANMF" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(parts)) + parts


def tiff(width: int, height: int, more: dict[int, int] | None = None) -> bytes:
    """A TIFF file of one strip that claims a size; `more` are further tags, or other values."""
    tags = {256: width, 257: height, 258: 8, 259: 8, 262: 1, 273: 200, 277: 1, 278: height, 279: 9}
    tags |= more or {}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags))
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + b"\0" * 4
    return head.ljust(200, b"\0") + zlib.compress(b"\0" * 1000)


BYTES = {
    "truncated.jpg": encoded("JPEG")[:900],
    "truncated.png": encoded("PNG")[:900],
    "empty.jpg": b"",
    "text.jpg": b"<html>404 not found</html>\n",
    "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
    "bomb.png": png(100_000, 100_000),
    "bomb.gif": gif((1, 1), (65_535, 65_535)),
    "bomb.tif": tiff(2**31 - 1, 2**31 - 1),
    "bomb.webp": webp(16_383, 16_383),
    "text-bomb.png": png(9, 9, chunk(b"zTXt", b"k\0\0" + zlib.compress(b"\0" * 50_000_000))),
    "profile-bomb.png": png(9, 9, chunk(b"iCCP", b"k\0\0" + zlib.compress(b"\0" * 50_000_000))),
}


def fill(folder: Path) -> list[str]:
    """Puts a bad file of every kind into a folder. Returns their names, as messages show them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in BYTES.items():
        (folder / name).write_bytes(content)
    (folder / "nowhere.jpg").symlink_to("missing")
    (folder / "itself.jpg").symlink_to("itself.jpg")
    (folder / "null.jpg").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.jpg")
    here = os.getcwd()
    os.chdir(folder)
    try:
        # A socket's whole path is short.
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.jpg")
    finally:
        os.chdir(here)
    (folder / "new\nline \udcff é.jpg").write_bytes(b"no image")
    names = [*BYTES, "nowhere.jpg", "itself.jpg", "null.jpg", "pipe.jpg", "socket.jpg"]
    return [*names, "new\\nline \\udcff é.jpg"]


def fill_odd(folder: Path) -> list[str]:
    """Puts odd files that are images all the same into a folder. Returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    good(folder / "tiny.png", 1, (1, 1))
    good(folder / "long.png", 2, (1, 30_000))
    good(folder / "thin.png", 3, (30_000, 1))
    (folder / "jpeg.png").write_bytes(encoded("JPEG"))
    (folder / "folder.jpg").mkdir()
    good(folder / "folder.jpg" / "inside.png", 4)
    (folder / "loop").symlink_to(".")
    good(folder / ("n" * 251 + ".png"), 5)
    good(folder / "a b\nc \udcff é.png", 6)
    frames = [Image.new("P", (20, 20), number % 250) for number in range(2000)]
    frames[0].save(folder / "frames.gif", save_all=True, append_images=frames[1:])
    names = ["tiny.png", "long.png", "thin.png", "jpeg.png", "folder.jpg/inside.png", "frames.gif"]
    return [*names, "n" * 251 + ".png", "a b\\nc \\udcff é.png"]
