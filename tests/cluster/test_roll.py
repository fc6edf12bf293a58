"""Who is to blame for a standstill."""

from __future__ import annotations

import pytest

from hvd_gan.cluster.roll import Entry, Roll


def roll(*entries: Entry) -> Roll:
    return Roll(entries, stall_timeout=120.0)


def entry(host: str, heard: float, got_on: float, doing: str = "") -> Entry:
    return Entry(host, heard, got_on, beats=1, at="step 7 of stage joint", doing=doing)


def test_there_is_no_standstill_while_any_rank_gets_on():
    assert roll(entry("a", 200, 0), entry("b", 200, 81)).standstill(200) is None
    assert roll(entry("a", 200, 0), entry("b", 200, 80)).standstill(200) is not None


def test_a_silent_rank_is_named_before_one_that_is_busy():
    found = roll(entry("a", 199, 50, "read (images.py:3)"), entry("b", 90, 50)).standstill(200)
    assert found.startswith("rank 1 of 2 on host b is silent")


def test_a_busy_rank_is_named_with_what_it_does_and_the_others_beside_it():
    found = roll(
        entry("a", 199, 50), entry("b", 199, 50, "read (images.py:3)"), entry("c", 199, 50, "x")
    ).standstill(200)
    assert found.startswith("rank 1 of 3 on host b is stuck at step 7 of stage joint, in read (i")
    assert "(rank 2 too)" in found and found.endswith("raise --stall-timeout")


def test_where_all_wait_nobody_is_accused():
    found = roll(entry("a", 199, 50), entry("b", 199, 50)).standstill(200)
    assert found.startswith("all ranks wait at step 7 of stage joint")


@pytest.mark.parametrize("beats", [(1, 1, 1), (1, 2, 3)])
def test_a_beat_counts_as_getting_on_only_if_its_number_has_risen(beats):
    heard = Entry("a", 0, 0)
    for now, number in enumerate(beats, start=1):
        heard.hear(now, number, "somewhere", "")
    assert (heard.heard, heard.got_on) == (3, 1 if beats[-1] == 1 else 3)
