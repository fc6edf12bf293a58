"""What is skipped is told once, and not too much at once; too much of it ends the run."""

import pytest

from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import DataSettings
from hvd_gan.data.watch import Skips


class Told:
    """Takes a job's screen's, log's and, of two ranks, the world's place."""

    def __init__(self, others=None):
        self.others, self.screen, self.file = others or {}, [], []

    def gather(self, mine):
        return [mine, self.others]

    def say(self, line):
        self.screen.append(line)
        self.log(line)

    def log(self, line):
        self.file.append(line)


def skips(told, images=200, share=0.9, kind="image"):
    return Skips(images, DataSettings(max_unreadable=share), told, told, kind)


def test_an_image_is_named_once_whichever_rank_meets_it():
    told = Told({"b.png": "empty file", "c.png": "no image"})
    watch = skips(told)
    watch.share({"b.png": "empty file", "a.png": "cut off"})
    watch.share({"b.png": "empty file", "a.png": "cut off"})
    assert told.screen == [
        "skipped an unreadable image, 3 so far: a.png: cut off",
        "skipped an unreadable image, 3 so far: b.png: empty file",
        "skipped an unreadable image, 3 so far: c.png: no image",
    ]


def test_a_hundred_at_once_are_four_lines_on_the_screen_and_a_hundred_in_the_log():
    told = Told()
    watch = skips(told)
    watch.share({f"{number:03d}.png": "empty file" for number in range(100)})
    assert len(told.screen) == 4
    assert told.screen[-1] == "... and 97 more; log.txt names them all"
    for number in range(100):
        assert sum(f"{number:03d}.png" in line for line in told.file) == 1


def test_all_ranks_findings_count_against_the_share():
    told = Told({"b.png": "empty file"})
    skips(told, 20, 0.1).share({"a.png": "cut off"})
    said = (
        r"data\.max_unreadable: 3 of 20 held-out images cannot be read, more than the allowed "
        r"share of 0\.1; the first is a\.png: cut off"
    )
    with pytest.raises(AgreedError, match=said):
        skips(told, 20, 0.1, "held-out image").share({"a.png": "cut off", "c.png": "no image"})
    assert "c.png" in told.file[-1]
