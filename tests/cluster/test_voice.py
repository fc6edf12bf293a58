"""What a rank says reaches the person, also while stderr is turned away and for odd words."""

from __future__ import annotations

import os
import subprocess
import sys

from hvd_gan.cluster.voice import last_words, say_last

TURNED_AWAY = """
import os
from hvd_gan.cluster.voice import say, stderr_turned_away
with stderr_turned_away():
    os.write(2, b"chatter\\n")
    say("it hangs here")
    if {crash}:
        os.abort()
os.write(2, b"afterwards\\n")
"""


def told(crash: bool) -> str:
    program = [sys.executable, "-c", TURNED_AWAY.format(crash=crash)]
    return subprocess.run(program, capture_output=True, text=True, check=False).stderr


def test_what_is_said_is_heard_and_chatter_is_not():
    assert told(crash=False) == "hvd_gan: it hangs here\nafterwards\n"


def test_a_crash_is_heard_too():
    assert "Fatal Python error: Aborted" in told(crash=True)


def test_under_a_supervisor_the_last_words_are_left_to_it(tmp_path, monkeypatch, capfd):
    words = tmp_path / "words"
    monkeypatch.setenv("HVD_GAN_LAST_WORDS", str(words))
    assert last_words(words) is None
    say_last("rank 1 failed: a\x00b")
    say_last("rank 0 fell over it")
    assert last_words(words) == "rank 1 failed: a\x00b"
    assert capfd.readouterr().err.count("hvd_gan: ") == 2


def test_on_another_host_than_the_supervisors_they_are_only_said(monkeypatch, capfd):
    monkeypatch.setenv("HVD_GAN_LAST_WORDS", "/nowhere/of/this/host/words")
    say_last("rank 1 failed")
    assert capfd.readouterr().err == "hvd_gan: rank 1 failed\n"
    assert not os.path.exists("/nowhere")
