"""Bad files of every kind are told apart from images, at once and within a bounded memory."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from hvd_gan.config import DataSettings
from hvd_gan.data.patience import may_pass
from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import Unreadable, open_source
from tests.data import zoo

READ = """
import resource, sys
from hvd_gan.data.decoding import quiet_pillow, read_image
from hvd_gan.data.source import Unreadable
limit = int(sys.argv[1])
quiet_pillow(limit)
for path in sys.argv[2:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        print(read_image(path, "x", limit, 64).shape, end="; ")
    except Unreadable as finding:
        print(finding.reason, end="; ")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def read_apart(folder, names, limit=178_000_000):
    """What a process of its own says to some files: the reason, and by how many MiB it grew."""
    paths = [os.path.join(os.fsencode(folder), os.fsencode(name)) for name in names]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(limit), *paths],
        capture_output=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.decode().splitlines()
    return [(said, int(grown)) for said, grown in (line.rsplit("; ", 1) for line in lines)]


def opened(folder, **more):
    settings = DataSettings(path=folder, held_out=0, image_size=32, **more)
    return open_source(settings, "train"), settings


@pytest.mark.filterwarnings("ignore")
def test_every_bad_file_is_listed_and_unreadable(tmp_path):
    names = zoo.fill(tmp_path)
    source, _ = opened(tmp_path)
    assert sorted(source.name(index) for index in range(len(source))) == sorted(names)
    for index in range(len(source)):
        with pytest.raises(Unreadable) as caught:
            source.read(index)
        assert str(caught.value).isprintable() and not may_pass(caught.value)


def test_odd_files_are_images_all_the_same(tmp_path):
    names = zoo.fill_odd(tmp_path)
    source, settings = opened(tmp_path)
    assert sorted(source.name(index) for index in range(len(source))) == sorted(names)
    settings = settings.model_copy(update={"short_side": (32, 384)})
    sampler = Sampler(source, settings, seed=1)
    for position in range(3 * len(names)):
        assert sampler.sample(position).image.shape == (32, 32, 3)
    assert sampler.skipped(before=100) == {}


def test_what_blows_up_is_refused_before_it_does(tmp_path):
    zoo.fill(tmp_path)
    names = [name for name in zoo.BYTES if "bomb" in name]
    for name, (said, grown) in zip(names, read_apart(tmp_path, names), strict=True):
        assert ("max_pixels" if name.startswith("bomb") else "too large") in said, (name, said)
        assert grown < 60, (name, grown)


def test_the_users_limit_is_exact_and_holds_memory_down(tmp_path):
    (tmp_path / "a.png").write_bytes(zoo.png(5000, 5000, body=bytes(5000 * 15_001)))
    (tmp_path / "a.webp").write_bytes(zoo.webp(5000, 5000))
    for limit, fits in ((24_999_999, False), (25_000_000, True)):
        for said, grown in read_apart(tmp_path, ["a.png", "a.webp"], limit):
            if fits:
                assert said == "(5000, 5000, 3)"
            else:
                assert said == "5000 x 5000 pixels are more than data.max_pixels=24999999"
                assert grown < 10


def test_files_larger_than_any_allowed_image_are_not_read(tmp_path):
    text = zoo.png(9, 9)[:33] + (1_500_000_000).to_bytes(4, "big") + b"tEXtk\0"
    (tmp_path / "text.png").write_bytes(text)
    (tmp_path / "a.webp").write_bytes(b"RIFF" + (1_500_000_000).to_bytes(4, "little") + b"WEBPVP8 ")
    for name in ("text.png", "a.webp"):
        # A hole: it takes no room on the disk.
        os.truncate(tmp_path / name, 1_600_000_000)
    for said, grown in read_apart(tmp_path, ["text.png", "a.webp"]):
        assert said.startswith("a file of 1,600,000,000 bytes, more than an image of data.max_pi")
        assert grown < 10


@pytest.mark.parametrize(
    "content",
    [
        zoo.gif((9, 9), (13_000, 13_000)),
        zoo.tiff(16, 16, {322: 60_000, 323: 60_000, 324: 200, 325: 100}),
        zoo.tiff(16, 16, {278: 2**31 - 1}),
        zoo.tiff(1000, 1000, {277: 60_000}),
        zoo.tiff(0, 0),
        zoo.png(0, 5),
    ],
    ids=["frame", "tiles", "strips", "samples", "nothing", "no width"],
)
def test_headers_that_lie_cost_nothing(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    [(_, grown)] = read_apart(tmp_path, ["a.png"])
    assert grown < 60


def test_a_pipe_that_takes_an_images_place_does_not_hold_the_run_up(tmp_path):
    zoo.good(tmp_path / "a.png", 1)
    source, _ = opened(tmp_path)
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(Unreadable, match="not a regular file"):
        source.read(0)


def test_an_error_of_the_device_may_pass(tmp_path):
    # Reading there is a true EIO.
    (tmp_path / "a.png").symlink_to("/proc/self/mem")
    source, _ = opened(tmp_path)
    with pytest.raises(Unreadable, match="input/output error") as caught:
        source.read(0)
    assert may_pass(caught.value)


def test_too_many_open_files_may_pass(tmp_path):
    zoo.good(tmp_path / "a.png", 1)
    source, _ = opened(tmp_path)
    source.read(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(Unreadable, match="too many open files") as caught:
            source.read(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert may_pass(caught.value)


def test_a_file_that_changes_while_training_is_read_as_it_is(tmp_path):
    zoo.good(tmp_path / "a.png", 1)
    source, _ = opened(tmp_path)
    whole, first = (tmp_path / "a.png").read_bytes(), source.read(0)
    os.truncate(tmp_path / "a.png", 900)
    with pytest.raises(Unreadable):
        source.read(0)
    (tmp_path / "a.png").write_bytes(whole)
    np.testing.assert_array_equal(source.read(0), first)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("held_out", [False, True])
def test_one_two_and_three_ranks_see_the_same_batches_of_a_zoo(tmp_path, held_out):
    zoo.fill(tmp_path)
    zoo.fill_odd(tmp_path / "odd")
    batch, steps = 12, 5
    seen, skipped = [], []
    for ranks in (1, 2, 3):
        source, settings = opened(tmp_path, max_unreadable=1.0)
        samplers = [Sampler(source, settings, seed=3, held_out=held_out) for _ in range(ranks)]
        # Rank r makes r, r + n, ..., and, ahead of its time, some more.
        for rank, sampler in enumerate(samplers):
            for position in range(rank, batch * steps + 6 * rank, ranks):
                sampler.sample(position)
        seen.append([samplers[k % ranks].sample(k) for k in range(batch * steps)])
        skipped.append({})
        for sampler in samplers:
            skipped[-1] |= sampler.skipped(before=batch * steps)
    assert skipped[0] == skipped[1] == skipped[2] and len(skipped[0]) > 10
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))
