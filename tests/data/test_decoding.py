"""Every format and mode becomes upright RGB bytes; every broken file becomes Unreadable."""

import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from hvd_gan.data import decoding
from hvd_gan.data.decoding import read_image
from hvd_gan.data.source import Unreadable

LIMIT = 1_000_000


def _read(path, **options):
    return read_image(path, "the image", LIMIT, **options)


def _reason(path, limit=LIMIT):
    with pytest.raises(Unreadable) as caught:
        read_image(path, "the image", limit)
    assert caught.value.name == "the image"
    assert "\n" not in caught.value.reason and caught.value.reason
    return caught.value.reason


def _save(path, image, **options):
    image.save(path, **options)
    return path


def _halves(mode, left, right):
    """32 x 16, two colors side by side, in whole blocks of a JPEG."""
    image = Image.new(mode, (32, 16), left)
    image.paste(right, (16, 0, 32, 16))
    return image


def _assert_halves(found, left, right, lossy=False):
    """Lossy formats change colors a little, and much where the halves meet."""
    assert found.shape == (16, 32, 3) and found.dtype == np.uint8
    away, tolerance = (4, 5) if lossy else (0, 0)
    assert np.abs(found[:, : 16 - away].astype(int) - left).max() <= tolerance
    assert np.abs(found[:, 16 + away :].astype(int) - right).max() <= tolerance


@pytest.mark.parametrize(
    ("suffix", "options", "lossy"),
    [
        ("jpg", {"quality": 95, "subsampling": 0}, True),
        ("jpg", {"quality": 95, "progressive": True}, True),
        ("png", {}, False),
        ("bmp", {}, False),
        ("webp", {"lossless": True}, False),
        ("webp", {"quality": 95}, True),
        ("gif", {}, False),
        ("tif", {}, False),
        ("tiff", {"compression": "tiff_lzw"}, False),
        ("tiff", {"compression": "jpeg", "quality": 95}, True),
    ],
)
def test_color_images_of_every_format(tmp_path, suffix, options, lossy):
    path = _save(tmp_path / f"x.{suffix}", _halves("RGB", (200, 30, 90), (10, 220, 60)), **options)
    _assert_halves(_read(path), (200, 30, 90), (10, 220, 60), lossy)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "tif", "gif"])
def test_gray_becomes_three_equal_channels(tmp_path, suffix):
    found = _read(_save(tmp_path / f"x.{suffix}", _halves("L", 40, 200)))
    _assert_halves(found, 40, 200, lossy=suffix == "jpg")


@pytest.mark.parametrize("suffix", ["png", "tif", "bmp", "gif"])
def test_black_and_white_is_0_and_255(tmp_path, suffix):
    _assert_halves(_read(_save(tmp_path / f"x.{suffix}", _halves("1", 0, 1))), 0, 255)


@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_transparency_is_laid_over_white(tmp_path, suffix):
    options = {"lossless": True, "exact": True} if suffix == "webp" else {}
    image = _halves("RGBA", (0, 0, 0, 0), (200, 100, 0, 51))
    found = _read(_save(tmp_path / f"x.{suffix}", image, **options))
    # A fifth of the color, four fifths of white.
    _assert_halves(found, 255, (244, 224, 204))


def test_gray_with_alpha_is_laid_over_white(tmp_path):
    found = _read(_save(tmp_path / "x.png", _halves("LA", (0, 0), (100, 255))))
    _assert_halves(found, 255, 100)


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_transparent_palette_entry_is_laid_over_white(tmp_path, suffix):
    image = _halves("P", 0, 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    path = _save(tmp_path / f"x.{suffix}", image, transparency=0)
    _assert_halves(_read(path), 255, (40, 50, 60))


def test_a_palette_with_several_alphas_is_laid_over_white(tmp_path):
    image = _halves("P", 0, 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    path = _save(tmp_path / "x.png", image, transparency=bytes([0, 51]))
    _assert_halves(_read(path), 255, (212, 214, 216))


def test_a_transparent_color_without_alpha_channel_is_laid_over_white(tmp_path):
    image = _halves("RGB", (1, 2, 3), (90, 80, 70))
    path = _save(tmp_path / "x.png", image, transparency=(1, 2, 3))
    _assert_halves(_read(path), 255, (90, 80, 70))


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_cmyk_is_converted(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    _save(path, _halves("CMYK", (0, 255, 255, 0), (255, 0, 0, 0)), quality=100)
    _assert_halves(_read(path), (255, 0, 0), (0, 255, 255), lossy=True)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path, suffix):
    values = np.array([[0, 128, 129, 257, 32768, 65406, 65407, 65535]], np.uint16)
    found = _read(_save(tmp_path / f"x.{suffix}", Image.fromarray(values)))
    assert found[0].tolist() == [[round(float(v) / 257)] * 3 for v in values[0]]
    assert found[0, -1, 0] == 255 and found[0, 4, 0] == 128


def test_sixteen_bits_in_the_other_byte_order(tmp_path):
    image = Image.frombytes("I;16B", (2, 1), struct.pack(">2H", 257 * 3, 257 * 250))
    found = _read(_save(tmp_path / "x.tif", image))
    assert found[0, :, 0].tolist() == [3, 250]


def test_sixteen_bit_color_png_keeps_its_upper_bytes(tmp_path):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    row = b"\0" + struct.pack(">3H", 0x1234, 0x8000, 0xFFFF)
    header = chunk(b"IHDR", struct.pack(">2I5B", 1, 1, 16, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + body)
    np.testing.assert_allclose(_read(path)[0, 0], (0x12, 0x80, 0xFF), atol=1)


@pytest.mark.parametrize(
    ("values", "expected"), [([0, 0.5, 1], [0, 128, 255]), ([0, 2, 254.6], [0, 2, 255])]
)
def test_floats_lie_between_0_and_1_or_255(tmp_path, values, expected):
    path = _save(tmp_path / "x.tif", Image.fromarray(np.array([values], np.float32)))
    assert _read(path)[0, :, 0].tolist() == expected


@pytest.mark.parametrize(
    "values", [np.float32([[0, 300]]), np.float32([[-1, 1]]), np.float32([[np.nan, 1]]),
               np.int32([[0, 70000]]), np.int32([[-1, 5]])]
)  # fmt: skip
def test_values_without_a_known_range_are_refused(tmp_path, values):
    assert "outside 0 to" in _reason(_save(tmp_path / "x.tif", Image.fromarray(values)))


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (32, 16), color) for color in ("#102030", "#ffffff")]
    for suffix in ("gif", "webp", "tif", "png"):
        path = tmp_path / f"x.{suffix}"
        options = {"lossless": True} if suffix == "webp" else {}
        frames[0].save(path, save_all=True, append_images=frames[1:], **options)
        _assert_halves(_read(path), (16, 32, 48), (16, 32, 48))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_turned_upright(tmp_path, suffix, orientation):
    shown = np.zeros((16, 32, 3), np.uint8)
    shown[:8, :8] = (255, 0, 0)
    shown[:8, 24:] = (0, 255, 0)
    # How a camera stores what is to be shown: the inverse of the turn, by the EXIF standard.
    stored = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a),
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation](shown)
    exif = Image.Exif()
    exif[decoding.ORIENTATION] = orientation
    image = Image.fromarray(np.ascontiguousarray(stored))
    options = {"lossless": True} if suffix == "webp" else {"quality": 95, "subsampling": 0}
    path = _save(tmp_path / f"x.{suffix}", image, exif=exif, **options)
    found = _read(path)
    assert found.shape == shown.shape
    assert np.abs(found.astype(int) - shown).max() < 30
    with Image.open(path) as reference:
        assert (found == np.asarray(ImageOps.exif_transpose(reference).convert("RGB"))).all()


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_metadata_does_not_cost_the_picture(tmp_path):
    for exif in (b"Exif\0\0garbage", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12"):
        path = _save(tmp_path / "x.jpg", _halves("RGB", "red", "red"), exif=exif)
        assert _read(path).shape == (16, 32, 3)


def test_a_large_jpeg_may_come_smaller_but_never_below_twice_the_short_side(tmp_path):
    path = _save(tmp_path / "x.jpg", Image.new("RGB", (800, 400), "#406080"))
    assert _read(path).shape == (400, 800, 3)
    assert _read(path, short_side=64).shape == (200, 400, 3)
    assert _read(path, short_side=16).shape == (50, 100, 3)
    assert _read(path, short_side=400).shape == (400, 800, 3)
    np.testing.assert_allclose(_read(path, short_side=16).mean((0, 1)), (64, 96, 128), atol=2)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "webp", "gif", "tif"])
def test_truncated_files_are_unreadable(tmp_path, suffix):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = _save(tmp_path / f"x.{suffix}", Image.fromarray(noise))
    whole = path.read_bytes()
    for share in (0.02, 0.3, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert _reason(path)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "webp", "gif", "tif"])
def test_damaged_files_are_read_or_unreadable_never_worse(tmp_path, suffix):
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (32, 32, 3), np.uint8)
    path = _save(tmp_path / f"x.{suffix}", Image.fromarray(noise))
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    decoding.quiet_pillow(LIMIT)
    for _ in range(60):
        damaged = whole.copy()
        places = rng.integers(0, min(len(damaged), 400), 4)
        damaged[places] = rng.integers(0, 256, 4)
        path.write_bytes(damaged.tobytes())
        try:
            found = _read(path)
        except Unreadable:
            continue
        assert found.dtype == np.uint8 and found.ndim == 3 and found.shape[2] == 3


def test_reasons_are_short_and_say_what_is_wrong(tmp_path, monkeypatch):
    path = tmp_path / "x.jpg"
    assert _reason(path) == "no such file or directory"
    path.write_bytes(b"")
    assert _reason(path) == "empty file"
    path.write_text("<html>404</html>")
    assert _reason(path) == "not an image, or of an unknown format"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
    assert _reason(path) == "not an image, or of an unknown format"

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", denied)
    assert _reason(path) == "permission denied"


def test_too_many_pixels_are_refused_by_the_header(tmp_path):
    path = _save(tmp_path / "x.png", Image.new("1", (2000, 600)))
    assert _reason(path) == "2000 x 600 pixels are more than data.max_pixels=1000000"
    assert read_image(path, "", 1_200_000).shape == (600, 2000, 3)
    # A header that promises 10 gigapixels, and nothing behind it.
    head = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 10**5, 10**5, 1, 24, *[0] * 6)
    (tmp_path / "bomb.bmp").write_bytes(head)
    assert "max_pixels" in _reason(tmp_path / "bomb.bmp")


def test_our_limit_counts_above_pillows_own(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = _save(tmp_path / "x.png", Image.new("L", (40, 40)))
    with warnings.catch_warnings():
        decoding.quiet_pillow(1600)
        assert read_image(path, "", 1600).shape == (40, 40, 3)
        assert "max_pixels=1599" in _reason(path, 1599)


def test_odd_files_do_not_chatter(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        decoding.quiet_pillow(500)
        path = _save(
            tmp_path / "x.jpg", Image.new("RGB", (24, 24)), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1"
        )
        _read(path)
    assert not seen
    assert capfd.readouterr() == ("", "")


def test_a_damaged_tiff_does_not_write_to_the_screen(tmp_path, capfd):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = _save(tmp_path / "x.tif", Image.fromarray(noise), compression="tiff_lzw")
    whole = bytearray(path.read_bytes())
    whole[100:4000] = bytes(3900)
    path.write_bytes(whole)
    decoding.quiet_pillow(LIMIT)
    _reason(path)
    assert capfd.readouterr() == ("", "")
