"""Starts real ranks for the tests, and reads what they left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def slow(*values: object) -> object:
    """A test's parameters for which it is left to `make chaos`: others show the same, sooner."""
    return pytest.param(*values, marks=pytest.mark.slow)


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


class Started:
    """A training of the tiny model on two ranks, as a context: it has taken its first steps when
    that begins, and is asked to stop when it ends.
    """

    def __init__(self, launcher: str, run: Path, *settings: str) -> None:
        self._metrics = run / "metrics.jsonl"
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            command(launcher, 2, "-m", "hvd_gan.train", "--run", str(run), *TINY, *settings),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=lambda: self._lines.extend(self.process.stdout))
        self._reader.start()

    def __enter__(self) -> Started:
        self.until(self._metrics.exists)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.wait()

    def until(self, happens: Callable[[], object]) -> None:
        """Waits for something; fails at once, with what was said, if the job ends before."""
        deadline = time.monotonic() + 150
        while not happens():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def wait(self) -> int:
        """Waits for the job's end and its last words. Returns its exit code."""
        code = self.process.wait(timeout=120)
        self._reader.join(timeout=30)
        return code

    @property
    def output(self) -> str:
        """What stood on the screen, once the job has ended."""
        return "".join(self._lines)
