"""One job at a time in a run folder: a lock that ends with the process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import IO

from hvd_gan.config_base import ConfigError

# A job that has just been killed may need a moment to be gone.
WAIT_SECONDS = 5.0
# NFS keeps the lock of a host that it has lost for 90 s, while an elastic job goes on without it.
LOST_HOST_SECONDS = 100.0
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class RunLock:
    """Held from `take` until `close` or the process's end."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def take(self, path: Path, wait: float = WAIT_SECONDS) -> list[str]:
        """Takes the lock and writes down whose it is. Returns warnings.

        Raises ConfigError, which names the holder, if another process still has it after `wait`
        seconds, or the file cannot be written.
        """
        try:
            # Keeps what the holder wrote; child processes do not inherit the descriptor.
            file = path.open("ab+", buffering=0)
            if not _lock(file, wait):
                raise ConfigError(
                    f"{path.parent}: another job is running in this folder ({_holder(path)}); wait "
                    "for its end, stop it, or take another folder"
                )
        except OSError as error:
            if error.errno in NO_LOCKS:
                return [f"warning: {path.parent} has a file system without locks; start one job"]
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
        self._file = file
        # A process that forks without exec would hold the lock on.
        os.register_at_fork(after_in_child=self.close)
        try:
            file.truncate(0)
            file.write(f"pid {os.getpid()} on {socket.gethostname()} since {_now()}\n".encode())
        except OSError as error:
            return [f"warning: {path} does not say whose it is: {error.strerror}"]
        return []

    def close(self) -> None:
        """Lets go; in a forked child this leaves the parent's hold."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def _holder(path: Path) -> str:
    return path.read_text(errors="replace").strip() or "which does not say its name"


def _lock(file: IO[bytes], wait: float) -> bool:
    """Whether the lock was had within some seconds. Raises OSError where there are no locks."""
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
