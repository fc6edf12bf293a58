"""The images that the tests of this folder share, built once from a clean checkout.

Without caches that takes some minutes, most of them Horovod's. HVD_GAN_IMAGES=FOLDER keeps the
images, and the next time builds only what has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cluster.images.containers import Storage, why_not
from tests.launch import ROOT


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """What git has of this commit, as someone checks it out who lets nobody else read it."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("checkout")
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "--output", archive, "HEAD"], cwd=ROOT, check=True)
    subprocess.run(["tar", "--extract", "--file", archive], cwd=folder, check=True)
    subprocess.run(["chmod", "-R", "go-rwx", "."], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="session")
def storage(checkout):
    """A storage with both images, hvd-gan and hvd-gan:ssh."""
    kept = os.environ.get("HVD_GAN_IMAGES")
    # Not in /tmp, which may be memory: it grows to 10 GB.
    folder = Path(kept or tempfile.mkdtemp(prefix="hvd_gan-", dir="/var/tmp"))
    storage = Storage(folder)
    try:
        if not (folder / "images").exists():
            storage.make_base()
        storage.build(checkout, "hvd-gan")
        storage.build(checkout, "hvd-gan:ssh", target="ssh")
        yield storage
    finally:
        if not kept:
            storage.buildah("rm", "--all")
            storage.buildah("rmi", "--all", "--force")
            shutil.rmtree(folder)


@pytest.fixture
def box(storage):
    with storage.container("hvd-gan") as box:
        yield box


@pytest.fixture
def folder(tmp_path):
    """Makes folders that a container's user may write."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        os.chown(path, 1000, 1000)
        return path

    return make
