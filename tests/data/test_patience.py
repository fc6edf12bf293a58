"""What may pass is tried again for a while; what may not is not."""

import errno

import numpy as np
import pytest

from hvd_gan.data import patience
from hvd_gan.data.patience import may_pass, patiently
from hvd_gan.data.reading import Reader
from hvd_gan.data.source import Unreadable


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(patience, "time", made)
    return made


def failing(clock, until, error):
    """An action that fails before a time, and counts its calls."""

    def action():
        action.calls += 1
        if clock.now < until:
            raise error
        return "done"

    action.calls = 0
    return action


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM])
def test_what_may_pass_is_tried_until_it_has_passed(clock, number):
    action = failing(clock, 5.0, OSError(number, "away"))
    assert patiently(action) == "done"
    assert 5 <= clock.now < 8 and 3 < action.calls < 12


def test_patience_ends(clock):
    with pytest.raises(OSError, match="away"):
        patiently(failing(clock, 1e9, OSError(errno.EIO, "away")))
    assert 7 < clock.now <= 10


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG])
def test_what_will_not_pass_is_told_at_once(clock, number):
    action = failing(clock, 1.0, OSError(number, "no"))
    with pytest.raises(OSError, match="no"):
        patiently(action)
    assert action.calls == 1 and clock.now == 0


def test_a_try_that_itself_took_long_is_the_only_one(clock):
    action = failing(clock, 1e9, OSError(errno.ETIMEDOUT, "slow"))

    def slow():
        clock.sleep(60)
        return action()

    with pytest.raises(OSError, match="slow"):
        patiently(slow)
    assert action.calls == 1


def test_an_error_passes_if_what_caused_it_does():
    def caused(cause):
        try:
            raise Unreadable("x", "y") from cause
        except Unreadable as error:
            return error

    assert may_pass(caused(OSError(errno.EIO, "")))
    assert may_pass(caused(MemoryError()))
    assert not may_pass(caused(OSError(errno.ENOENT, "")))
    assert not may_pass(caused(OSError("image file is truncated")))
    assert not may_pass(caused(None))


def test_a_disk_that_is_away_for_a_while_costs_time_and_no_image(clock, numbered):
    source = numbered(3)
    plain = source.read

    def read(index):
        if clock.now < 4:
            raise OSError(errno.ESTALE, "Stale file handle")
        return plain(index)

    source.read = read
    np.testing.assert_array_equal(Reader(source).read(2), plain(2))


def test_of_a_disk_that_is_gone_only_the_first_image_is_waited_for(clock, numbered):
    source = numbered(40)

    def read(_):
        raise OSError(errno.EIO, "Input/output error")

    source.read = read
    reader = Reader(source)
    for index in range(40):
        with pytest.raises(Unreadable, match=f"number {index}: input/output error"):
            reader.read(index)
    assert clock.now <= 10


def test_a_bad_sector_is_waited_for_once(clock, numbered):
    source = numbered(3)
    plain, asked = source.read, []

    def read(index):
        asked.append(index)
        if index == 1:
            raise OSError(errno.EIO, "Input/output error")
        return plain(index)

    source.read = read
    reader = Reader(source)
    for _ in range(3):
        with pytest.raises(Unreadable):
            reader.read(1)
        reader.read(2)
    assert clock.now <= 10
    # Another image is worth waiting for again.
    assert asked.count(1) > 4 and asked.count(2) == 3


def test_any_error_of_the_system_in_a_users_source_is_an_unreadable_image(numbered):
    source = numbered(2)
    for error, said in (
        (PermissionError(errno.EACCES, "Permission denied"), "permission denied"),
        (OSError("odd\nerror"), "odd error"),
    ):

        def read(_, error=error):
            raise error

        source.read = read
        with pytest.raises(Unreadable, match=f"number 1: {said}"):
            Reader(source).read(1)
    source.read = {}.__getitem__
    with pytest.raises(KeyError):
        Reader(source).read(1)
