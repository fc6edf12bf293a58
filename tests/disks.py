"""Disks that fill up and turn read-only. Both need root; where tests do not have it, they skip."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system in memory of some size, `64k` or `2m`, mounted at a new folder."""
    mount_or_skip(path, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    try:
        yield path
    finally:
        while path.is_mount():
            subprocess.run(["umount", "--lazy", str(path)], check=True)


def mount_or_skip(path: Path, *arguments: str) -> None:
    """Mounts something at a folder, or skips the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk that is small or read-only takes root")
    path.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
