"""The real Dockerfile's images: what is in them, and that they train as `docker run` would."""

from __future__ import annotations

import shutil
import signal
import tarfile
import time

import psutil
import pytest

from tests.cluster.images.containers import network

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

FEW = (
    "stages.completion.steps=3",
    "stages.discriminator.steps=2",
    "stages.joint.steps=2",
    "evaluation.samples=0",
)
TRAIN = ("train", "--preset", "demo")
COMPILERS = "cc c++ gcc g++ clang cpp as ld make cmake nvcc mpicc mpicxx cython"


@pytest.mark.parametrize(
    "launcher",
    [
        (),
        ("horovodrun", "--gloo", "-np", "2", "hvd-gan"),
        ("mpirun", "-np", "2", "hvd-gan"),
    ],
    ids=["alone", "horovodrun", "mpirun"],
)
def test_trains_as_nobody_in_particular(storage, folder, launcher):
    runs = folder("runs")
    with storage.container("hvd-gan", volumes={"/workspace/runs": runs}) as box:
        done = box.run(*launcher, *TRAIN, *FEW)
    assert done.code == 0, done.output
    assert (runs / "demo/checkpoints").is_dir()
    assert {path.stat().st_uid for path in runs.rglob("*")} == {1000}


def test_trains_as_any_user_without_a_network(storage):
    with (
        network(["alone"]),
        storage.container("hvd-gan", user="12345:12345", namespace="hvd-alone") as box,
    ):
        done = box.run("horovodrun", "-np", "2", "hvd-gan", *TRAIN, *FEW)
        assert done.code == 0, done.output
        assert box.sh("stat --format %u runs/demo/log.txt") == "12345"


def test_checks_itself(box):
    commands = box.run("--help").output
    check = ("doctor", "--quick") if " doctor " in commands else ("audit", *TRAIN[1:])
    done = box.run(*check)
    # Doctor's 1 is a warning: a test machine may lack memory, say.
    assert done.code in ((0, 1) if check[0] == "doctor" else (0,)), done.output


def test_exit_codes_are_those_of_the_command(box):
    assert box.run().code == 0
    assert box.run("bash", "-c", "exit 75").code == 75
    mistaken = box.run("trian")
    assert mistaken.code == 2
    assert "no command 'trian'" in mistaken.output


@pytest.mark.parametrize(
    "launcher", [(), ("mpirun", "-np", "2", "hvd-gan")], ids=["alone", "mpirun"]
)
def test_stopping_the_container_stops_every_rank(box, launcher):
    with box.start(*launcher, *TRAIN, *FEW[1:], "stages.completion.steps=100000") as process:
        line = process.stdout.readline()
        while line and "joint" not in line:
            line = process.stdout.readline()
        inside = psutil.Process(process.pid).children(recursive=True)
        ranks = [one for one in inside if "train" in one.cmdline()]
        (init,) = (one for one in inside if one.name() == "tini")
        time.sleep(2)
        init.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert ranks
    assert not [rank for rank in ranks if rank.is_running()]


def test_nothing_that_builds_is_left(box):
    assert box.sh(f"for tool in {COMPILERS}; do command -v $tool; done; true") == ""
    leftovers = "-name .cache -o -name '*.whl' -o -name mpi.h -o -name Python.h"
    assert box.sh(f"find /opt /usr /home /workspace {leftovers}") == ""
    assert box.sh("id -u") == "1000"
    assert box.sh("find /opt /usr -writable -not -type l | head") == ""


@pytest.mark.parametrize("tag", ["hvd-gan", "hvd-gan:ssh"])
def test_no_layer_holds_a_private_key(storage, tmp_path, tag):
    storage.buildah("push", "--quiet", "--disable-compression", tag, f"dir:{tmp_path}/layers")
    seen = 0
    for layer in (tmp_path / "layers").iterdir():
        if not tarfile.is_tarfile(layer):
            continue
        with tarfile.open(layer) as files:
            for entry in files:
                seen += 1
                assert "ssh_host_" not in entry.name
                if entry.isfile() and 100 < entry.size < 20_000:
                    first = files.extractfile(entry).readline(80)
                    assert not (first.startswith(b"-----BEGIN") and b"PRIVATE KEY" in first), entry
    assert seen > 10_000
    shutil.rmtree(tmp_path / "layers")


def test_a_change_of_code_builds_no_dependency_again(storage, checkout):
    code = checkout / "hvd_gan/cli.py"
    before = code.read_text()
    try:
        code.write_text(before.replace("usage: hvd-gan", "changed: hvd-gan"))
        log = storage.build(checkout, "hvd-gan:changed")
    finally:
        code.write_text(before)
    assert "Installing TensorFlow" not in log
    with storage.container("hvd-gan:changed") as box:
        assert "changed: hvd-gan" in box.run().output
    # All is shared but the last two layers, the code and what its import left.
    plain = storage.layers("hvd-gan")
    assert storage.layers("hvd-gan:changed")[:-2] == plain[:-2]
    assert storage.layers("hvd-gan:ssh")[: len(plain) - 2] == plain[:-2]
