"""What a launcher and its ranks keep on this host outside of any run folder, and its removal.

Open MPI's mpirun keeps a folder that is named by its process id, and a rank 16 MB of shared memory.
Killed, they leave both. An mpirun to which the system gives the same process id then ends at once
("The PMIx server's listener thread failed to start"): in a container that starts again, each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

# Names of Open MPI 5's own setting for where the folder goes; it makes none of the two itself.
FOLDERS = ("PRTE_MCA_prte_local_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
SEGMENTS = "/dev/shm/sm_segment."
PREFIX = "hvd_gan-job-"
NOTE = "exit-code"


class Scratch:
    """A folder of a job's own, for its launcher's files. A context: all is removed at its end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self._segments: dict[int, set[Path]] = {}
        folder = Path(self._folder.name)
        # In which ranks leave the job's exit code, and what is to be said last.
        self.note, self.words = folder / NOTE, folder / "last-words"
        self._lock = _locked(self.note)
        _sweep(folder.parent)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        for path in set().union(*self._segments.values()):
            with contextlib.suppress(OSError):
                path.unlink()
        self._folder.cleanup()
        self._lock.close()

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What tells a launcher of the folder; what the user has set stays."""
        if any(name in environment for name in FOLDERS):
            return {}
        return {FOLDERS[0]: self._folder.name}

    def look(self, processes: Iterable[int]) -> None:
        """Remembers the shared memory of ranks. To be called now and then while they live."""
        for pid in processes:
            if not self._segments.get(pid):
                self._segments[pid] = _segments(pid)


def _locked(note: Path) -> IO[bytes]:
    """A new file, locked for as long as it is open: whose folder is in use."""
    coming = note.with_suffix(".new")
    file = coming.open("wb")
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    coming.rename(note)
    return file


def _sweep(folder: Path) -> None:
    """Removes what supervisors have left that were killed: nobody else would."""
    for note in folder.glob(f"{PREFIX}*/{NOTE}"):
        with contextlib.suppress(OSError), note.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(note.parent, ignore_errors=True)


def _segments(pid: int) -> set[Path]:
    """Open MPI's shared memory that a process has before it."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    paths = {line.split(maxsplit=5)[-1] for line in lines if SEGMENTS in line}
    return {Path(path) for path in paths if path.startswith(SEGMENTS)}
