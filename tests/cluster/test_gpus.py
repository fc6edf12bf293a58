"""Which GPU a rank takes, under every way to show it some and hide others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hvd_gan.cluster.gpus import Sight, assign, look, unused

# A machine with four GPUs, the first of which is cut into two MIG devices in some tests.
MACHINE = tuple(f"GPU-{letter}0000000-0000-0000-0000-000000000000" for letter in "abcd")
MIG = ("MIG-10000000-0000-0000-0000-000000000000", "MIG-GPU-a0000000/1/0")


def shown_by_cuda(visible: str | None, machine: tuple[str, ...] = MACHINE) -> tuple[str, ...]:
    """What CUDA shows, by the rules of NVIDIA's programming guide, "CUDA Environment Variables":
    indices or beginnings of UUIDs, up to the first that is unknown; nothing if one comes twice; one
    MIG device at most, and then no other GPU.
    """
    if visible is None:
        return machine
    found = []
    for entry in visible.split(","):
        if entry in MIG:
            return (entry,)
        if entry.isdigit() and int(entry) < len(machine):
            found.append(machine[int(entry)])
        elif entry.startswith("GPU-") and sum(name.startswith(entry) for name in machine) == 1:
            found += [name for name in machine if name.startswith(entry)]
        else:
            break
    return tuple(found) if len(set(found)) == len(found) else ()


def sight(visible: str | None, host: str = "a", machine: tuple[str, ...] = MACHINE) -> Sight:
    return Sight(host, shown_by_cuda(visible, machine), visible, len(machine))


def gpus_of(sights: list[Sight]) -> str:
    """The letters of the GPUs that ranks take; CUDA's numbers lead back to them."""
    numbers = assign(sights)
    return "".join(
        "-" if number is None else seen.gpus[number].removeprefix("GPU-")[0]
        for seen, number in zip(sights, numbers, strict=True)
    )


@pytest.mark.parametrize(
    ("visible", "ranks", "gpus"),
    [
        (None, 4, "abcd"),
        (None, 2, "ab"),
        ("", 4, "----"),
        ("-1", 2, "--"),
        ("NoDevFiles", 2, "--"),
        ("3", 1, "d"),
        ("2,3", 2, "cd"),
        ("3,2", 2, "dc"),
        ("1,-1,2", 1, "b"),
        (MACHINE[2], 1, "c"),
        (f"{MACHINE[3]},{MACHINE[0][:6]}", 2, "da"),
        # One twice shows none, and 7 is not there.
        ("1,1", 1, "-"),
        ("7", 1, "-"),
    ],
)
def test_ranks_take_the_gpus_that_are_shown_to_all_in_turn(visible, ranks, gpus):
    assert gpus_of([sight(visible)] * ranks) == gpus


@pytest.mark.parametrize("name", MIG)
def test_a_rank_takes_its_mig_device(name):
    assert assign([sight(name)]) == [0]


def test_two_mig_devices_are_two_when_each_rank_names_its_own():
    assert assign([sight(name) for name in MIG]) == [0, 0]


def test_a_list_of_mig_devices_shows_one_to_all_ranks_and_is_refused():
    with pytest.raises(ValueError, match="one MIG device at a time, so give each rank a CUDA_VIS"):
        assign([sight(",".join(MIG))] * 2)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        # --gpu-bind=none, and jobs of one task a node.
        (["0,1,2,3"] * 4, "abcd"),
        # --gpu-bind=single:1, map_gpu:3,2,1,0, a wrapper by local rank: without cgroups.
        (["0", "1", "2", "3"], "abcd"),
        (["3", "2", "1", "0"], "dcba"),
        # --gpu-bind=closest: two tasks at each of two sockets.
        (["0,1", "0,1", "2,3", "2,3"], "abcd"),
        (["2,3", "0,1", "2,3", "0,1"], "cadb"),
        # --gpus-per-task=2: tasks own more than they use.
        (["0,1", "2,3"], "ac"),
    ],
)
def test_ranks_take_what_slurm_binds_them_to(visible, gpus):
    assert gpus_of([sight(value) for value in visible]) == gpus


def test_a_gpu_that_slurms_cgroups_leave_to_a_task_is_number_0_whichever_it_is():
    sights = [sight("0", machine=(name,)) for name in MACHINE]
    assert assign(sights) == [0, 0, 0, 0]
    assert gpus_of(sights) == "abcd"


def test_every_host_has_gpus_of_its_own():
    other = tuple(name.replace("0000-", "1111-") for name in MACHINE)
    sights = [sight(None), sight(None, "b", other), sight(None), sight(None, "b", other)]
    assert assign(sights) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("visible", "seen", "users"),
    [("2,3", 2, "ranks 0, 1"), ("3", 1, "rank 0"), (MACHINE[1], 1, "rank 0")],
)
def test_more_ranks_than_gpus_are_refused_with_host_number_variable_and_cure(visible, seen, users):
    with pytest.raises(ValueError) as refused:
        assign([sight(visible)] * (seen + 1))
    assert str(refused.value) == (
        f"rank {seen} on host a has no GPU: it sees {seen} (CUDA_VISIBLE_DEVICES is {visible!r}), "
        f"taken by {users}; start fewer ranks on this host, or show it more GPUs by "
        "CUDA_VISIBLE_DEVICES"
    )


def test_ranks_with_and_without_gpus_in_one_job_are_refused():
    with pytest.raises(ValueError, match=r"rank 1 on host b sees none .*is ''.*hide them from all"):
        assign([sight("0"), sight("", "b")])


@pytest.mark.parametrize(
    ("stated", "there", "for_gpus", "words"),
    [
        (None, 4, True, ["host a has 4 NVIDIA GPUs", "is not set", "doctor tells why"]),
        ("2,3", 1, False, ["has 1 NVIDIA GPU (", "is '2,3'", "GPU=1 make setup"]),
        ("2,3", 0, True, ["has no NVIDIA GPU", "is '2,3'", "--gpus all"]),
    ],
)
def test_gpus_that_tensorflow_does_not_see_are_missed_once_for_a_host(
    stated, there, for_gpus, words
):
    [sentence] = unused([Sight("a", (), stated, there)] * 3, for_gpus)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    "seen",
    [
        Sight("a", (), None, 0),
        Sight("a", (), "", 4),
        Sight("a", (), "-1", 4),
        Sight("a", (), "NoDevFiles", 4),
        Sight("a", MACHINE, None, 4),
    ],
)
def test_no_gpu_is_missed_where_there_is_none_or_they_are_hidden_or_used(seen):
    assert unused([seen], True) == []


def test_a_rank_says_what_its_host_has(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert look("a", 0, {"CUDA_VISIBLE_DEVICES": "5"}, tmp_path) == Sight("a", (), "5", 2)


def test_without_the_drivers_word_ranks_go_by_their_order_or_by_the_only_gpu_they_see():
    assert assign([look("a", 2), look("a", 2)]) == [0, 1]
    assert assign([look("a", 1)]) == [0]


# Two GPUs, or what its variable says.
DRIVER = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return getenv("BROKEN") ? 100 : 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = 10 + number; return 0; }
int cuDeviceGetUuid_v2(unsigned char *name, int device) { memset(name, device, 16); return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(("broken", "lines"), [(False, 2), (True, 0)])
def test_the_driver_names_gpus_by_their_uuids(broken, lines, tmp_path):
    Path(tmp_path, "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True, timeout=60
    )
    code = "from hvd_gan.cluster.gpus import driver_names; print(*driver_names(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), **({"BROKEN": "1"} if broken else {})},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    expected = ["GPU-" + "-".join(byte * n for n in (4, 2, 2, 2, 6)) for byte in ("0a", "0b")]
    assert done.stdout.split() == expected[:lines]
