"""The launcher that started this process: what it says of the job's size, and its screen."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LAUNCHERS = {"mpirun", "mpiexec", "prterun", "orterun", "horovodrun", "horovod.runner.launch"}
DAEMONS = {"prted", "orted"}

# The number of processes, as the launchers state it: Open MPI's mpirun, MPICH's and Slurm's PMI,
# srun (only inside a job step: a batch script has SLURM_NTASKS too), horovodrun with Gloo.
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "HOROVOD_SIZE")
# The first that is set is right: a launcher inside another hands on what the outer one has stated.
# A batch script and an interactive step of Slurm's have SLURM_PROCID=0, and such a step PMIX_RANK=0
# or PMI_RANK=0 too, which mpirun states anew, and horovodrun with Gloo does not.
RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
LOCAL_RANK_VARIABLES = (
    "HOROVOD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)
LOCAL_SIZE_VARIABLES = ("HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")

# Names a file in which ranks leave the job's exit code, for a supervisor whose launcher loses it;
# until there is one, that they have started.
EXIT_FILE = "HVD_GAN_EXIT_FILE"
# Names a file for the sentence that is to stand last on the screen, below all that a launcher says.
LAST_WORDS_FILE = "HVD_GAN_LAST_WORDS"
STARTED = "started"
PR_SET_PDEATHSIG = 1


class LaunchError(Exception):
    """The job was started in a way that cannot work. The message names the cure."""


def stated_size(environment: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """The largest number of processes that a launcher states, and the variable that says so.

    (1, "") where no launcher says anything.
    """
    stated = [(1, "")]
    for variable in SIZE_VARIABLES:
        value = environment.get(variable, "")
        if value.isdigit():
            stated.append((int(value), variable))
    return max(stated, key=lambda entry: entry[0])


def stated_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """The rank that a launcher states for this process; None without a launcher."""
    if stated_size(environment) == (1, ""):
        return None
    return _first(RANK_VARIABLES, environment)


def stated_local_rank(environment: Mapping[str, str] = os.environ) -> int:
    """This process's number on its host, as a launcher states it; 0 where none does."""
    return _first(LOCAL_RANK_VARIABLES, environment) or 0


def stated_local_size(environment: Mapping[str, str] = os.environ) -> int:
    """The number of processes on this host, as a launcher states it; 1 where none does."""
    return _first(LOCAL_SIZE_VARIABLES, environment) or _tasks_of_node(environment)


def _first(variables: Sequence[str], environment: Mapping[str, str]) -> int | None:
    values = (environment.get(variable, "") for variable in variables)
    return next((int(value) for value in values if value.isdigit()), None)


def _tasks_of_node(environment: Mapping[str, str]) -> int:
    """Slurm lists the tasks of a step's nodes in their order: `4(x2),3` on three nodes."""
    tasks = []
    for entry in environment.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", entry)
        tasks += [int(found[1])] * int(found[2] or 1) if found else []
    node = environment.get("SLURM_NODEID", "")
    return tasks[int(node)] if node.isdigit() and int(node) < len(tasks) else 1


def is_supervised() -> bool:
    """Whether a supervisor on this host waits for the job's exit code."""
    # On another host than the supervisor's there is no such file.
    return os.path.exists(os.environ.get(EXIT_FILE, ""))


def leave_exit_code(code: int) -> bool:
    """Tells the supervisor, if there is one on this host, how the job has ended, as all ranks agree
    or as the first one finds that fails.
    """
    return _leave(str(code))


def leave_start() -> None:
    """Tells the supervisor, if there is one on this host, that the job runs: it is to believe no 0
    of a launcher from now on.

    Open MPI 5's mpirun ends with 0 when it has lost a host.
    """
    # Another rank may have come further.
    if is_supervised() and not Path(os.environ[EXIT_FILE]).read_text():
        _leave(STARTED)


def _leave(note: str) -> bool:
    if not is_supervised():
        return False
    try:
        Path(os.environ[EXIT_FILE]).write_text(note, encoding="utf-8")
    except OSError:
        # A full /tmp: the launcher's own code has to do.
        return False
    return True


def check_not_alone(size: int, environment: Mapping[str, str] = os.environ) -> None:
    """Raises LaunchError if a launcher started several processes and each thinks it is alone.

    Each would train the whole run by itself and write over the others' files.
    """
    stated, variable = stated_size(environment)
    if size == 1 and stated > 1:
        raise LaunchError(
            f"{variable} says {stated} processes, but Horovod sees 1: the launcher belongs to "
            "another MPI than the one that Horovod was built with. Start the job with the mpirun "
            "or horovodrun of this environment (. .venv/bin/activate), or srun with --mpi=pmix"
        )


def end_with_the_connection() -> None:
    """Lets the kernel kill this rank when the connection by which it was started ends.

    For horovodrun's Gloo, which kills nothing on other hosts: a rank that is stopped, or stuck in
    the kernel, does not hear of the job's end. mpirun has a daemon there, which does it.
    """
    if "HOROVOD_RANK" in os.environ and launcher_pid() is None:
        die_with_parent(signal.SIGKILL)


def die_with_parent(number: signal.Signals) -> None:
    """Lets the kernel send this process a signal when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


def shows_on_terminal() -> bool:
    """Whether what this process prints reaches a terminal.

    mpirun gives its ranks a pseudo-terminal even when its own output goes to a file.
    """
    if not sys.stdout.isatty():
        return False
    launcher = launcher_pid()
    if launcher is None:
        # On other hosts than mpirun's, its daemon gives ranks such a terminal.
        return not any(DAEMONS & set(command) for _, command in _ancestors())
    try:
        # Opened without truncating: it may be the file that the job's output goes to.
        screen = os.open(f"/proc/{launcher}/fd/1", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.isatty(screen)
    finally:
        os.close(screen)


def launcher_pid() -> int | None:
    """The outermost launcher among this process's ancestors; None if it is not on this host."""
    found = [pid for pid, command in _ancestors() if LAUNCHERS & set(command)]
    return found[-1] if found else None


def _ancestors() -> Iterator[tuple[int, list[str]]]:
    """Process ids upwards, each with the names of the first words of its command."""
    pid = os.getppid()
    while pid > 1:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        # `python horovodrun`, or `python -m horovod.runner.launch`.
        yield pid, [os.path.basename(word) for word in words[:3]]
        # The command's name stands in parentheses and may hold spaces; the parent comes after.
        pid = int(status.rpartition(")")[2].split()[1])
