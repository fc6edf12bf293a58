"""One job at a time in a run folder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from hvd_gan.config_base import ConfigError
from hvd_gan.run_lock import RunLock
from tests.disks import small_disk

HOLD = (
    "import sys; from pathlib import Path; from hvd_gan.run_lock import RunLock\n"
    "lock = RunLock(); lock.take(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_job_is_refused_and_the_first_is_named(holder, tmp_path):
    with pytest.raises(ConfigError) as raised:
        RunLock().take(tmp_path / "lock", wait=0.3)
    assert f"{tmp_path}: another job is running in this folder" in str(raised.value)
    assert f"pid {holder.pid} on {socket.gethostname()} since 2" in str(raised.value)


def test_a_killed_jobs_lock_is_gone_with_it(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    lock = RunLock()
    assert lock.take(tmp_path / "lock") == []
    assert f"pid {os.getpid()} on" in (tmp_path / "lock").read_text()


def test_a_job_that_is_about_to_end_is_waited_for(holder, tmp_path):
    killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {holder.pid}"])
    started = time.monotonic()
    RunLock().take(tmp_path / "lock")
    assert 0.8 < time.monotonic() - started < 4
    killer.wait()


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_children_do_not_hold_it_on(tmp_path, how):
    lock = RunLock()
    lock.take(tmp_path / "lock")
    if how == "fork":
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
    else:
        child = subprocess.Popen(["sleep", "30"], close_fds=False).pid
    time.sleep(0.2)
    lock.close()
    try:
        RunLock().take(tmp_path / "lock", wait=0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_forked_child_that_ends_leaves_its_parents_hold(tmp_path):
    lock = RunLock()
    lock.take(tmp_path / "lock")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(ConfigError, match="another job"):
        RunLock().take(tmp_path / "lock", wait=0)


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch):
    for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):

        def flock(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)
        [warning] = RunLock().take(tmp_path / "lock")
        assert "has a file system without locks" in warning


def test_on_a_full_disk_it_can_be_taken_still_so_that_one_can_prune(tmp_path):
    with small_disk(tmp_path / "disk", "16k") as disk:
        (disk / "lock").touch()
        (disk / "filler").write_bytes(b"x" * 12288)
        with pytest.raises(OSError):
            (disk / "more").write_bytes(b"x" * 5000)
        [warning] = RunLock().take(disk / "lock")
        assert warning.endswith("lock does not say whose it is: No space left on device")


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="lock: cannot be written: No such file or directory"):
        RunLock().take(tmp_path / "gone" / "lock")
