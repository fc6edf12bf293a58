"""One MPI for all: the library of Horovod, that of mpi4py, and the launcher on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hvd_gan.checks.findings import Finding, error, note, ok, warning
from hvd_gan.checks.horovod import extension, folder
from hvd_gan.checks.probe import last_line, output_of, probe
from hvd_gan.checks.repair import off_library_path, repair

Steps = Mapping[str, Any]
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
# install.sh writes it into the launchers that it puts around the real ones.
WRAPPER = "Written by hvd_gan's install.sh"
FAMILIES = ("Open MPI", "MPICH", "Intel", "MVAPICH", "HYDRA")


def check_mpi(steps: Steps, launched: bool) -> Iterator[Finding]:
    """Findings about the MPI libraries and their launchers.

    mpi4py is tried alone too: a library that Horovod has brought along would hide its own.
    """
    alone = probe("hvd_gan.checks.mpi_alone", silence=60)
    mpi4py = alone.results.get("alone") or {"error": alone.how}
    horovods = horovods_library(steps)
    yield from _mpi4py(mpi4py, steps, horovods)
    library = next(iter(horovods or mpi4py.get("libraries", [])), "")
    yield from _mpirun(library, mpi4py.get("library", ""), launched)
    yield from _horovodrun()


def horovods_library(steps: Steps) -> list[str]:
    """The MPI libraries that Horovod loads; asked of `ldd` where Horovod does not load."""
    facts = steps.get("horovod", {})
    if "libraries" in facts:
        return list(facts["libraries"])
    where = folder()
    if where is None or not extension(where).is_file():
        return []
    _, output = output_of(["ldd", str(extension(where))])
    found = re.findall(r"libmpi(?:ch)?\.so\S* => (/\S+)", output)
    return sorted({os.path.realpath(path) for path in found})


def _mpi4py(mpi4py: Mapping[str, Any], steps: Steps, horovods: list[str]) -> Iterator[Finding]:
    if "error" in mpi4py:
        if "No module named 'mpi4py'" in mpi4py["error"]:
            yield error("mpi4py", "not installed for this Python", repair("mpi4py"))
        else:
            yield error("mpi4py", _short(mpi4py["error"]), repair("mpi4py"))
        return
    together = steps.get("mpi4py", {})
    own = [os.path.realpath(path) for path in mpi4py["libraries"]]
    theirs = [os.path.realpath(path) for path in horovods]
    both = {os.path.realpath(path) for path in together.get("libraries", [])} | {*own, *theirs}
    what = f"{mpi4py['version']} on {name_of(mpi4py['library'])}"
    if theirs and len(both) > 1:
        detail = f"{what}, {own[0]}; Horovod on {theirs[0]}"
        cure = off_library_path(own[0]) or off_library_path(theirs[0]) or repair("mpi4py")
        if "MPI4PY_LIBMPI" in os.environ:
            cure = "unset MPI4PY_LIBMPI"
        yield error("mpi4py", f"{detail}: they have to share one", cure)
    elif "error" in together and "libraries" in steps.get("horovod", {}):
        yield error("mpi4py", f"beside Horovod: {_short(together['error'])}", repair("mpi4py"))
    else:
        yield ok("mpi4py", what + (", the library that Horovod uses" if theirs else ""))


def _mpirun(library: str, banner: str, launched: bool) -> Iterator[Finding]:
    """The mpirun that the PATH finds first, compared with the library."""
    program = shutil.which("mpirun")
    wrong = warning if launched else error
    beside, own = _beside(library), Path(sys.executable).parent
    # The environment's own starts that one, and lets ranks save before they end.
    first = str(own) if wrapped(own / "mpirun") else beside
    cure = f"export PATH={first}:$PATH" if first else "put your MPI's bin folder on the PATH"
    if program is None:
        if shutil.which("srun") and "SLURM_JOB_ID" in os.environ:
            yield note("mpirun", "not on the PATH; srun is, in this Slurm job", cure)
        else:
            yield wrong("mpirun", "not on the PATH", cure)
        return
    if Path(program).parent == own:
        cure = off_library_path(library) or repair()
    code, output = output_of([program, "--version"])
    if code != 0:
        yield wrong("mpirun", f"{program} does not run: {_short(last_line(output))}", cure)
        return
    theirs, ours = name_of(output), name_of(banner)
    if banner and not _starts(output, theirs, ours):
        yield wrong("mpirun", f"{program} is {theirs}; Horovod and mpi4py use {ours}", cure)
    elif beside and not _lies_in(beside, wrapped(Path(program)) or program):
        detail = f"{program} is not the one of {library}"
        yield warning("mpirun", detail, cure)
    else:
        yield ok("mpirun", f"{program}, {theirs}")
        if theirs.startswith("Open MPI") and not launched and _refuses_root():
            cure = "as another user; in a container: export " + " ".join(f"{v}=1" for v in AS_ROOT)
            yield note("mpirun", "refuses to run as root", cure)


def wrapped(program: Path) -> str:
    """The launcher that install.sh's own one starts; empty if the program is not one of those."""
    try:
        text = program.read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(r"supervise\(\['([^']+)'", text) if WRAPPER in text else None
    return found[1] if found else ""


def _starts(output: str, launcher: str, library: str) -> bool:
    """Whether a launcher that says `output` starts programs with a library; by their names.

    Hydra is MPICH's, also where MVAPICH and others bring it along, at a version of its own.
    """
    if "HYDRA" in output:
        return any(family in library for family in ("MPICH", "MVAPICH"))
    return launcher == library


def _lies_in(folder: str, program: str) -> bool:
    """Whether a launcher is of the MPI whose programs lie in a folder, directly or by links."""
    there = Path(folder).resolve()
    return Path(program).parent.resolve() == there or Path(program).resolve().parent == there


def _refuses_root() -> bool:
    return os.geteuid() == 0 and not all(os.environ.get(variable) for variable in AS_ROOT)


def _horovodrun() -> Iterator[Finding]:
    program, own = shutil.which("horovodrun"), Path(sys.executable).parent
    cure = f"export PATH={own}:$PATH"
    if program is None:
        if (own / "horovodrun").is_file():
            yield warning("horovodrun", "not on the PATH", cure)
        else:
            yield note("horovodrun", "not installed; mpirun and srun do without", repair())
    elif (own / "horovodrun").is_file() and Path(program).parent.resolve() != own.resolve():
        yield warning("horovodrun", f"{program} belongs to another Python", cure)
    else:
        yield ok("horovodrun", program)


def name_of(banner: str) -> str:
    """`Open MPI 5.0.11`, from what a library or a launcher says of itself."""
    family = next((family for family in FAMILIES if family in banner), "MPI")
    version = re.search(r"\d+(\.\d+)+", banner)
    family = {"HYDRA": "MPICH", "Intel": "Intel MPI"}.get(family, family)
    return f"{family} {version[0]}" if version else family


def _beside(library: str) -> str:
    """The bin folder of the installation that a library belongs to; empty if there is none."""
    for above in Path(library).parents if library else ():
        if (above / "bin" / "mpirun").exists():
            return str(above / "bin")
    return ""


def _short(text: str, length: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."
