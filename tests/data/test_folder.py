"""A folder gives the same images in the same order on every host."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import Unreadable, open_source
from tests.data.folders import error_of, fill, names_of, settings_of


def test_images_are_found_below_and_sorted_by_the_bytes_of_their_paths(tmp_path):
    fill(
        tmp_path,
        "b.PNG",
        "a/z.Jpeg",
        "a.webp",
        "é.gif",
        "B.tIf",
        "a/b/c.BMP",
        "a-b.tiff",
        "a b.jpg",
    )
    source = open_source(settings_of(tmp_path), "train")
    expected = ["B.tIf", "a b.jpg", "a-b.tiff", "a.webp", "a/b/c.BMP", "a/z.Jpeg", "b.PNG", "é.gif"]
    assert names_of(source) == expected
    reds = [int(source.read(index)[0, 0, 0]) for index in range(8)]
    assert reds == [4, 7, 6, 2, 5, 1, 0, 3]


def test_hidden_and_other_files_are_passed_over(tmp_path):
    fill(tmp_path, "a.png", ".b.png", "._a.png", ".cache/c.png", "d.txt", "png", "e.png.bak")
    (tmp_path / "folder.png").mkdir()
    assert names_of(open_source(settings_of(tmp_path), "train")) == ["a.png"]


def test_names_with_spaces_newlines_and_broken_text(tmp_path):
    fill(tmp_path, "a b.png", "a\nb.png", b"a\xffb.png", "漢字.png", "a\\b.png")
    source = open_source(settings_of(tmp_path), "train")
    assert names_of(source) == ["a\\nb.png", "a b.png", "a\\b.png", "a\\udcffb.png", "漢字.png"]
    assert [source.read(index).shape for index in range(5)] == [(8, 9, 3)] * 5


def test_links_are_followed_and_loops_end(tmp_path):
    fill(tmp_path, "data/a.png", "data/sub/b.png", "elsewhere/c.png")
    data = tmp_path / "data"
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "sub" / "up").symlink_to(data)
    (data / "self").symlink_to("self")
    (data / "self.png").symlink_to("self.png")
    (data / "twin").symlink_to("sub")
    (data / "d.png").symlink_to("../elsewhere/d.png")
    fill(tmp_path, "elsewhere/d.png")
    source = open_source(settings_of(data), "train")
    assert names_of(source) == ["a.png", "d.png", "linked/c.png", "self.png", "sub/b.png"]
    with pytest.raises(Unreadable):
        source.read(3)


def test_a_dangling_link_is_reported_not_passed_over(tmp_path):
    fill(tmp_path, "a.png")
    (tmp_path / "b.png").symlink_to("nowhere")
    source = open_source(settings_of(tmp_path), "train")
    with pytest.raises(Unreadable, match=r"b\.png: no such file"):
        source.read(1)


def test_a_vanished_file_is_unreadable_and_does_not_change_the_fingerprint(tmp_path):
    fill(tmp_path, "a.png", "b.png")
    source = open_source(settings_of(tmp_path), "train")
    before = source.fingerprint()
    (tmp_path / "a.png").unlink()
    with pytest.raises(Unreadable, match=r"a\.png"):
        source.read(0)
    assert source.fingerprint() == before
    assert open_source(settings_of(tmp_path), "train").fingerprint() != before
    assert source.read(1).shape == (8, 9, 3)


def test_the_fingerprint_tells_names_and_sizes_not_where_the_folder_is(tmp_path):
    prints = []
    for place, names in (("x", "ab"), ("y/z", "ab"), ("v", "ac"), ("w", "a")):
        fill(tmp_path / place, *(f"{name}.png" for name in names))
        prints.append(open_source(settings_of(tmp_path / place), "train").fingerprint())
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
    with open(tmp_path / "x" / "a.png", "ab") as file:
        file.write(b"0")
    assert open_source(settings_of(tmp_path / "x"), "train").fingerprint() != prints[0]


def test_wrong_paths_are_told_in_one_line(tmp_path):
    assert "set data.path=" in error_of(settings_of(None))
    assert "no such folder" in error_of(settings_of(tmp_path / "missing"))
    file = tmp_path / "a.png"
    file.touch()
    assert "is a file" in error_of(settings_of(file))
    empty = tmp_path / "empty"
    (empty / "sub").mkdir(parents=True)
    (empty / "notes.txt").touch()
    assert "no image in this folder or below" in error_of(settings_of(empty), "held_out")


def test_a_folder_that_cannot_be_listed_is_told(tmp_path, monkeypatch):
    fill(tmp_path, "a.png", "sub/b.png")

    def scandir(path, real=os.scandir):
        if path.endswith(b"sub"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    message = error_of(settings_of(tmp_path))
    assert message.endswith("sub: cannot be listed: permission denied")


def test_pixels_above_the_limit_are_unreadable(tmp_path):
    fill(tmp_path, "a.png")
    source = open_source(settings_of(tmp_path, max_pixels=71), "train")
    with pytest.raises(Unreadable, match="9 x 8 pixels"):
        source.read(0)


def test_the_order_does_not_depend_on_the_locale(tmp_path):
    fill(tmp_path, "Z.png", "a.png", "é.png", "e.png", b"\xff.png")
    code = (
        "from hvd_gan.config import DataSettings\n"
        "from hvd_gan.data.source import open_source\n"
        f"source = open_source(DataSettings(path={str(tmp_path)!r}, held_out=0), 'train')\n"
        "print(ascii([source.name(i) for i in range(len(source))]), source.fingerprint())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-X", "utf8=0", "-c", code],
            env={**os.environ, **locale},
            capture_output=True,
            check=True,
        ).stdout
        for locale in ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"})
    }
    assert len(outputs) == 1


def test_reading_the_same_image_twice_gives_the_same_bytes(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 500, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.jpg")
    source = open_source(settings_of(tmp_path), "train")
    assert (source.read(0) == source.read(0)).all()


def test_links_to_one_file_count_once_and_copies_each(tmp_path):
    fill(tmp_path, "b.png", "c.png")
    os.link(tmp_path / "b.png", tmp_path / "a.png")
    (tmp_path / "d.png").symlink_to("c.png")
    (tmp_path / "e.png").symlink_to("nowhere")
    (tmp_path / "f.png").symlink_to("nowhere")
    (tmp_path / "copy.png").write_bytes((tmp_path / "c.png").read_bytes())
    source = open_source(settings_of(tmp_path), "train")
    assert names_of(source) == ["a.png", "c.png", "copy.png", "e.png", "f.png"]
    assert source.notes == ("left out 2 links to files that are there already",)


def test_names_and_paths_of_any_length_are_read(tmp_path):
    deep = "/".join(["d" * 200] * 15)
    folder = os.open(tmp_path, os.O_RDONLY)
    for part in deep.split("/"):
        os.mkdir(part, dir_fd=folder)
        folder = os.open(part, os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    fill(tmp_path, "x" * 251 + ".png", f"{deep}/y.png")
    source = open_source(settings_of(tmp_path), "train")
    assert [source.read(index).shape for index in range(2)] == [(8, 9, 3)] * 2


def test_a_thousand_folders_in_each_other_are_searched(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    fill(tmp_path, "d/" * 1200 + "a.png")
    try:
        assert len(open_source(settings_of(tmp_path), "train")) == 1
    finally:
        # pytest's own cleaning recurses.
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


def _as_begun(tmp_path, change, **more):
    """A folder of ten images that was changed, and is opened as it was listed before."""
    fill(tmp_path, *(f"{number}.png" for number in range(10)))
    before = open_source(settings_of(tmp_path), "train")
    change()
    now = open_source(settings_of(tmp_path, **more), "train")
    return before, now.as_listed(before.listing())


def test_a_run_goes_on_with_the_images_that_it_began_with(tmp_path):
    def change():
        (tmp_path / "3.png").unlink()
        (tmp_path / "5.png").write_bytes(b"cut")
        fill(tmp_path, "4b.png")

    before, after = _as_begun(tmp_path, change, max_unreadable=0.2)
    assert names_of(after) == names_of(before) and after.fingerprint() == before.fingerprint()
    assert after.listing() == before.listing()
    assert after.notes == ("since the run began, gone: 1, of another size: 1, new and not used: 1",)
    for index in (3, 5):
        with pytest.raises(Unreadable):
            after.read(index)
    assert after.read(4).shape == (8, 9, 3)


def test_nothing_is_said_of_a_folder_that_is_as_it_was(tmp_path):
    _, after = _as_begun(tmp_path, lambda: None)
    assert after.notes == ()


def test_more_changes_than_the_share_are_refused(tmp_path):
    def change():
        for number in range(3):
            (tmp_path / f"{number}.png").unlink()

    with pytest.raises(ConfigError, match=r"of the 10 images .* gone: 3, of another size: 0"):
        _as_begun(tmp_path, change, max_unreadable=0.2)


def test_another_user_is_told_what_is_forbidden(tmp_path):
    if os.getuid():
        pytest.skip("needs root, to become another user")
    fill(tmp_path, "a.png", "b.png")
    (tmp_path / "b.png").chmod(0)
    code = (
        "import os, sys\n"
        "from hvd_gan.config import DataSettings\n"
        "from hvd_gan.config_base import ConfigError\n"
        "from hvd_gan.data.source import Unreadable, open_source\n"
        "settings = DataSettings(path='.', held_out=0)\n"
        "open_source(settings, 'train').read(0)\n"
        "os.setegid(65534); os.seteuid(65534)\n"
        "source = open_source(settings, 'train')\n"
        "print(source.read(0).shape)\n"
        "try: source.read(1)\n"
        "except Unreadable as error: print(error)\n"
        "os.seteuid(0); os.mkdir('closed', 0); os.seteuid(65534)\n"
        "try: open_source(settings, 'train')\n"
        "except ConfigError as error: print(error)\n"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "(8, 9, 3)",
        "b.png: permission denied",
        "data.path: ./closed: cannot be listed: permission denied",
    ], done.stderr


def test_a_listing_that_fails_for_a_moment_is_made_again(tmp_path, monkeypatch):
    fill(tmp_path, "a.png", "sub/b.png")
    failures = [OSError(116, "Stale file handle"), OSError(5, "Input/output error")]

    def scandir(path, real=os.scandir):
        if path.endswith(b"sub") and failures:
            raise failures.pop()
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert names_of(open_source(settings_of(tmp_path), "train")) == ["a.png", "sub/b.png"]


def test_a_path_is_one_line_whatever_its_name(tmp_path):
    assert "a\\nb: there is no such folder" in error_of(settings_of(tmp_path / "a\nb"))
    (tmp_path / "a\nb").mkdir()
    assert "a\\nb: no image in this folder" in error_of(settings_of(tmp_path / "a\nb"))
