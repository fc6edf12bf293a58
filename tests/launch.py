"""Starts real ranks for the tests, and reads what they left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hvd_gan.engine.checkpoint_files import checkpoints_in

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent
LAUNCHERS = {
    "horovodrun": ("horovodrun", "-np"),
    "gloo": ("horovodrun", "--gloo", "-np"),
    "mpirun": ("mpirun", "--oversubscribe", "-np"),
}
TINY = ("--config", "tests/tiny.yaml")


@dataclass(frozen=True)
class Finished:
    """A job that has ended."""

    code: int
    output: str
    seconds: float

    @property
    def last_line(self) -> str:
        """The last line on the screen, without a launcher's tag."""
        return self.output.rstrip().splitlines()[-1]


def command(launcher: str, ranks: int, *arguments: str) -> list[str]:
    """The command that starts Python on some ranks; `single` starts it without a launcher."""
    python = [sys.executable, *arguments]
    if launcher == "single":
        return python
    program, *flags = LAUNCHERS[launcher]
    return [str(BIN / program), *flags, str(ranks), *python]


def environment() -> dict[str, str]:
    """This process's environment, with the virtual environment first on the PATH."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def launch(
    launcher: str,
    ranks: int,
    *arguments: str,
    timeout: float = 180,
    python_path: Path | None = None,
) -> Finished:
    """Runs Python with some arguments on some ranks and waits for the end."""
    extra = {} if python_path is None else {"PYTHONPATH": str(python_path)}
    started = time.monotonic()
    done = subprocess.run(
        command(launcher, ranks, *arguments),
        cwd=ROOT,
        env={**environment(), **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    return Finished(done.returncode, done.stdout, time.monotonic() - started)


def train(launcher: str, ranks: int, run: Path, *settings: str, **options) -> Finished:
    """Trains the tiny model, with some settings changed, into a run folder."""
    arguments = ("-m", "hvd_gan.train", "--run", str(run), *TINY, *settings)
    return launch(launcher, ranks, *arguments, **options)


def trained(launcher: str, ranks: int, run: Path, *settings: str) -> Path:
    """Like `train`, for a training that has to end well. Returns the run folder."""
    done = train(launcher, ranks, run, *settings)
    assert done.code == 0, done.output
    return run


@contextmanager
def started(launcher: str, run: Path, *settings: str) -> Iterator[subprocess.Popen]:
    """A training of the tiny model on two ranks that has saved a first checkpoint and runs on."""
    arguments = ("-m", "hvd_gan.train", "--run", str(run), *TINY, "checkpoints.every=20", *settings)
    screen = run.with_name(f"{run.name}-screen.txt")
    with screen.open("w") as output:
        job = subprocess.Popen(
            command(launcher, 2, *arguments),
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: checkpoints_in(run / "checkpoints"), job, screen)
        yield job
    finally:
        job.terminate()
        job.wait(timeout=30)


def until(happens: Callable[[], object], job: subprocess.Popen, screen: Path) -> None:
    """Waits for something that a job does; fails at once, with its screen, if it ends before."""
    deadline = time.monotonic() + 150
    while not happens():
        assert job.poll() is None and time.monotonic() < deadline, screen.read_text()
        time.sleep(0.1)
