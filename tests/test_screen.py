"""What is said is logged with its time, and a log that fails ends no job."""

from __future__ import annotations

import re

from hvd_gan.screen import Screen
from tests.disks import small_disk


def test_lines_are_logged_with_their_time(tmp_path):
    screen = Screen(speaks=True)
    screen.open_log(tmp_path / "log.txt")
    screen.say("one\ntwo")
    stamped = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d one\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d two\n"
    assert re.fullmatch(stamped, (tmp_path / "log.txt").read_text())


def test_a_log_that_cannot_be_written_is_told_once(tmp_path, capsys):
    screen = Screen(speaks=True)
    with small_disk(tmp_path / "disk", "8k") as disk:
        screen.open_log(disk / "log.txt")
        screen.log("first")
        (disk / "filler").write_bytes(b"x" * 4096)
        for number in range(3):
            screen.log("x" * 5000)
            screen.say(f"line {number}")
        (disk / "filler").unlink()
        screen.log("last")
        kept = [line.split(" ", 2)[2] for line in (disk / "log.txt").read_text().splitlines()]
    shown = capsys.readouterr().out
    assert shown.count("warning: log.txt could not be written") == 1
    assert "No space left on device" in shown
    assert [f"line {number}" in shown for number in range(3)] == [True] * 3
    assert kept[0] == "first" and kept[-1] == "last"


def test_ranks_that_do_not_speak_write_nothing(tmp_path):
    screen = Screen(speaks=False)
    screen.open_log(tmp_path / "log.txt")
    screen.say("nothing")
    assert not (tmp_path / "log.txt").exists()
