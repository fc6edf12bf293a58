"""GPUs that are there and cannot be used are found, with the reason."""

from __future__ import annotations

import pytest

from hvd_gan.checks.gpus import check_gpus
from tests.checks.facts import facts

TWO = ["GPU 0: NVIDIA H100", "GPU 1: NVIDIA H100"]
SEEN = ["/physical_device:GPU:0", "/physical_device:GPU:1"]

# A node without GPUs, on which NVIDIA's tools are installed as on all others.
NO_DRIVER = {"there": [], "seen": [], "cuda": False, "problem": "no driver"}


def check(
    there=TWO, visible=None, seen=SEEN, cuda="12.9", ranks=1, problem="", failure="", devices=()
):
    gpus = {"names": list(there), "problem": problem, "devices": list(devices)}
    tensorflow = {} if seen is None else {"gpus": seen, "cuda": cuda}
    tensorflow["gpu_error"] = failure
    return check_gpus(facts(gpus=gpus, cuda_visible=visible), tensorflow, ranks)


def test_gpus_that_tensorflow_sees_are_well():
    finding = check()
    assert finding.severity == "ok" and "2 here (NVIDIA H100), 2 usable" in finding.detail


def test_a_machine_without_gpus_is_well_with_a_tensorflow_for_cpus():
    assert check(there=[], seen=[], cuda=False).severity == "ok"


@pytest.mark.parametrize("visible", ["1", "0,1", "GPU-8f1c", "MIG-1a2b", "0,9"])
def test_a_variable_that_names_gpus_is_well(visible):
    assert check(visible=visible, seen=SEEN[:1]).severity == "ok"


@pytest.mark.parametrize(
    ("severity", "words", "cure", "case"),
    [
        ("error", "sees none", "driver", {"seen": []}),
        ("warning", "built for CPUs", "GPU=1", {"cuda": False, "seen": []}),
        ("warning", "'', which hides", "unset", {"visible": "", "seen": []}),
        ("warning", "'7', which hides", "unset", {"visible": "7", "seen": []}),
        ("warning", "'gpu0', which hides", "unset", {"visible": "gpu0", "seen": []}),
        ("warning", "none here, though", "unset", {"there": [], "visible": "0,1", "seen": []}),
        ("note", "none here", "--gpus all", {"there": [], "seen": []}),
        ("error", "sees 2 for 4 ranks", "at most 2 ranks", {"ranks": 4}),
        ("error", "version mismatch", "restart", {"problem": "NVML: version mismatch"}),
        ("error", "no driver", "restart", {**NO_DRIVER, "devices": ["nvidia0"]}),
        ("error", "no driver", "restart", {**NO_DRIVER, "cuda": "12.9"}),
        ("note", "none here, though NVIDIA's tools are: no driver", "CPUs", NO_DRIVER),
        ("note", "none here, though NVIDIA's tools are", "CPUs", {**NO_DRIVER, "seen": None}),
        ("note", "2 here", "mend TensorFlow", {"seen": None}),
        ("error", "fails: out of memory", "nvidia-smi", {"failure": "out of memory"}),
    ],
)
def test_a_fault_is_found_with_its_cure(severity, words, cure, case):
    finding = check(**case)
    assert finding.severity == severity and words in finding.detail and cure in finding.cure
