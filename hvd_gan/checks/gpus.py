"""GPUs: what the driver has, what TensorFlow sees, and why that may be less."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hvd_gan.checks.findings import Finding, error, note, ok, warning

CONTAINER = "in a container: docker run --gpus all, and NVIDIA's container toolkit on the host"


def check_gpus(facts: Mapping[str, Any], tensorflow: Mapping[str, Any], ranks: int = 1) -> Finding:
    """Compares the GPUs of `survey()` with what TensorFlow says; `ranks` run on this host.

    `tensorflow` has its `gpus`, the `cuda` that it is built for if it is, and the `gpu_error` that
    came when one was tried; it has none of the first two where TensorFlow does not load.
    """
    there, visible = facts["gpus"]["names"], facts["cuda_visible"]
    seen, cuda = tensorflow.get("gpus"), bool(tensorflow.get("cuda"))
    if problem := facts["gpus"]["problem"]:
        if not (facts["gpus"]["devices"] or cuda):
            cure = "none is needed on CPUs; if there is a GPU, load the driver's modules"
            return note("gpus", f"none here, though NVIDIA's tools are: {problem}", cure)
        cure = "load the driver's modules anew, or restart the machine after a driver's update"
        return error("gpus", f"the driver fails: {problem}", cure)
    if not there:
        return _none_there(visible, cuda)
    what = f"{len(there)} here"
    if seen is None:
        return note("gpus", what, "mend TensorFlow first, which is to use them")
    if not cuda:
        return warning("gpus", f"{what}, and TensorFlow is built for CPUs", "GPU=1 ./install.sh")
    if hidden := _hidden(visible, len(there)):
        return warning("gpus", f"{what}; {hidden}", "unset CUDA_VISIBLE_DEVICES, or name its GPUs")
    if not seen:
        cure = "GPU=1 ./install.sh brings CUDA's libraries; if it has, bring the driver up to date"
        return error("gpus", f"{what}, and TensorFlow sees none", cure)
    if 1 < len(seen) < ranks:
        cure = f"start at most {len(seen)} ranks on this host"
        return error("gpus", f"TensorFlow sees {len(seen)} for {ranks} ranks", cure)
    if failure := tensorflow["gpu_error"]:
        cure = "see who uses it (nvidia-smi); else GPU=1 ./install.sh, and the driver's update"
        return error("gpus", f"{what}, and computing on one fails: {failure}", cure)
    names = ", ".join(sorted({re.sub(r"^GPU \d+: ", "", name) for name in there}))
    return ok("gpus", f"{what} ({names}), {len(seen)} usable")


def _none_there(visible: str | None, cuda: bool) -> Finding:
    if visible not in (None, "", "-1", "NoDevFiles"):
        detail = f"none here, though CUDA_VISIBLE_DEVICES is {visible!r}"
        return warning("gpus", detail, f"unset CUDA_VISIBLE_DEVICES; {CONTAINER}")
    if cuda:
        return note("gpus", "none here, and TensorFlow is built for them", CONTAINER)
    return ok("gpus", "none here; ranks run on CPUs")


def _hidden(visible: str | None, there: int) -> str:
    """What CUDA_VISIBLE_DEVICES hides by mistake; empty where it names GPUs that exist."""
    if visible is None:
        return ""
    # CUDA stops reading at the first entry that it does not know. UUIDs and MIG names are its own.
    first = visible.split(",")[0].strip()
    if re.match(r"(GPU|MIG)-", first):
        return ""
    if first.isdigit() and int(first) < there:
        return ""
    return f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides them all"
