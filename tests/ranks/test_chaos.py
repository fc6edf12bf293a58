"""Thirty kills at random moments over one training run change none of its bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.launch import ROOT, TINY, command, environment, train
from tests.ranks.runs import values

KILLS = 30
SETTINGS = (
    "stages.completion.steps=5000",
    "stages.discriminator.steps=5000",
    "stages.joint.steps=5000",
    "checkpoints.every=20",
    "model.settings={norm: plain}",
)
VICTIMS = ("rank 0", "rank 1", "all ranks", "launcher")


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_kills_at_random_moments_change_nothing(tmp_path):
    seed = int(os.environ.get("CHAOS_SEED", time.time()))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    run = tmp_path / "run"
    for _ in range(KILLS):
        _train_and_kill(run, chance)
    for folder in (run, tmp_path / "undisturbed"):
        done = train("mpirun", 2, folder, *SETTINGS, timeout=900)
        assert done.code == 0, done.output
    disturbed, undisturbed = values(run), values(tmp_path / "undisturbed")
    assert int(disturbed["hvd_gan/steps"]) == 15000
    assert disturbed.keys() == undisturbed.keys()
    for name, value in undisturbed.items():
        np.testing.assert_array_equal(disturbed[name], value, err_msg=f"{name}, seed {seed}")


def _train_and_kill(run: Path, chance: random.Random) -> None:
    """Starts the job, kills a part of it at a random moment, and waits for the end of it all."""
    launcher = chance.choice(("mpirun", "gloo"))
    # Two of three in training, the others on the way there.
    in_training, victim = chance.random() < 0.67, chance.choice(VICTIMS)
    delay = chance.uniform(0, 1.5 if in_training else 8)
    arguments = ("-m", "hvd_gan.train", "--run", str(run), *TINY, *SETTINGS)
    job = subprocess.Popen(
        command(launcher, 2, *arguments),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines, before = run / "metrics.jsonl", time.monotonic()
    written = lines.stat().st_size if lines.exists() else 0
    while in_training and time.monotonic() - before < 60 and job.poll() is None:
        if lines.exists() and lines.stat().st_size > written:
            break
        time.sleep(0.02)
    time.sleep(delay)
    killed: list = []
    while not killed:
        # The victim may not have been born yet.
        assert job.poll() is None, f"ended before it was killed: {job.communicate()[0]}"
        processes = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
        killed = [each for each in processes if _is(victim, each) and _kill(each)]
    started = f"{launcher}, {'in training' if in_training else 'on the way'}, {delay:.2f} s"
    print(f"{time.strftime('%H:%M:%S')} {started}: killed {victim}, {[p.pid for p in killed]}")
    output, _ = job.communicate(timeout=120)
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive, f"{launcher}, {victim} killed: {alive} left\n{output}"
    assert job.returncode != 0, f"{launcher}, {victim} killed, yet 0:\n{output}"


def _is(victim: str, process: psutil.Process) -> bool:
    try:
        environ, words = process.environ(), process.cmdline()
    except psutil.Error:
        return False
    if victim == "launcher":
        return Path(words[0]).name in ("prterun", "mpiexec") or "horovod.runner.launch" in words
    if words[1:3] != ["-m", "hvd_gan.train"]:
        # Not a rank, but something that it has started, and that has its number.
        return False
    rank = environ.get("OMPI_COMM_WORLD_RANK") or environ.get("HOROVOD_RANK")
    return rank is not None and victim in (f"rank {rank}", "all ranks")


def _kill(process: psutil.Process) -> bool:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        return False
    return True
