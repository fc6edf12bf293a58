"""Reads the dynamic loader's complaints: which symbol is missing, and whose it was."""

from __future__ import annotations

import re
import shutil

from hvd_gan.checks.probe import output_of

LONGEST = 60


def missing_symbol(message: str) -> str:
    """The symbol that the loader did not find, mangled; empty if it complains of something else."""
    found = re.search(r"undefined symbol: (\S+)", message)
    return found[1].strip(",;") if found else ""


def missing_library(message: str) -> str:
    """The library that the loader did not find; empty if it complains of something else."""
    found = re.search(r"(\S+\.so[.\d]*): cannot open shared object file", message)
    return found[1] if found else ""


def readable(symbol: str) -> str:
    """A C++ symbol as the programmer wrote it, by c++filt where there is one; cut if long."""
    name = symbol
    if shutil.which("c++filt"):
        _, output = output_of(["c++filt", symbol], 5)
        name = output.strip()
    if name == symbol:
        name = "::".join(_parts(symbol)) or symbol
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}..."


def whose(symbol: str) -> str:
    """What a missing symbol says about how the library was built."""
    parts = readable_parts(symbol)
    if re.search(r"MPI_|ompi_|opal_", symbol):
        return "another MPI's"
    if re.search(r"nccl|cuda|Cuda|[Gg]pu|GPU", symbol):
        return "a GPU build of TensorFlow's"
    if {"tensorflow", "tsl", "xla", "absl", "google", "Eigen"} & set(parts):
        release = re.search(r"lts_(\d{8})", symbol)
        return "another TensorFlow's" + (f", with Abseil {release[1]}" if release else "")
    return "another build's"


def readable_parts(symbol: str) -> list[str]:
    """The names in a mangled symbol: tensorflow, TensorShapeBase, absl, ..."""
    return _parts(symbol) or [symbol]


def _parts(symbol: str) -> list[str]:
    """Itanium mangling writes each name behind its length: _ZN10tensorflow6StatusE."""
    parts, rest = [], symbol
    while found := re.search(r"\d+", rest):
        rest = rest[found.end() :]
        length = int(found[0])
        if not 0 < length <= len(rest):
            continue
        parts.append(rest[:length])
        rest = rest[length:]
    return parts
