"""The GPU build of Horovod, where there is no GPU. `make gpu-build-check` runs this, in an
environment that it has just made; pytest does not find it by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

from tests.launch import BIN, environment, train

SITE = Path(sysconfig.get_path("purelib"))
NCCL = SITE / "nvidia/nccl/lib/libnccl.so.2"

LOAD = """
import json, re
import horovod.tensorflow as hvd
import tensorflow as tf
maps = open("/proc/self/maps").read()
print(json.dumps({
    "nccl": bool(hvd.nccl_built()), "cuda": hvd.cuda_built(), "mpi": hvd.mpi_built(),
    "gloo": hvd.gloo_built(), "libraries": sorted(set(re.findall(r"/.*/libnccl.*", maps))),
    "version": tf.sysconfig.get_build_info()["cuda_version"],
}))
"""


def output(*command: str | Path) -> str:
    clean = {key: value for key, value in environment().items() if key != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        command, env=clean, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    return done.stdout


def library() -> Path:
    [found] = (SITE / "horovod/tensorflow").glob("mpi_lib*.so")
    return found


def test_it_loads_without_a_driver_with_nccl_mpi_and_gloo():
    # Python resolves every symbol of a library as it loads it, those of TensorFlow's GPU code too.
    loaded = json.loads(output(sys.executable, "-c", LOAD).splitlines()[-1])
    assert all(loaded[part] for part in ("nccl", "cuda", "mpi", "gloo")), loaded
    assert loaded["libraries"] == [str(NCCL)]
    # TensorFlow brings the CUDA that it was built for.
    assert version(f"nvidia-cuda-runtime-cu{loaded['version'].split('.')[0]}")


def test_horovodrun_knows_that_gpu_tensors_go_through_nccl():
    assert {"[X] TensorFlow", "[X] MPI", "[X] NCCL", "[X] Gloo"} <= {
        line.strip() for line in output(BIN / "horovodrun", "--check-build").splitlines()
    }


def test_it_finds_nccl_in_whichever_environment_it_lies():
    dynamic = output("readelf", "-d", library())
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    [paths] = re.findall(r"\(RU?N?PATH\).*\[(.*)\]", dynamic)
    assert "$ORIGIN/../../nvidia/nccl/lib" in paths.split(":")
    assert "libnccl.so.2" in needed
    # The driver is looked for only when there is a GPU to use; CUDA's runtime is inside.
    assert not [name for name in needed if name.startswith(("libcuda.", "libcudart."))]
    [found] = re.findall(r"libnccl\.so\.2 => (.*) \(", output("ldd", library()))
    assert Path(found).resolve() == NCCL.resolve()


def test_it_holds_code_for_gpus():
    assert ".nv_fatbin" in output("readelf", "-SW", library())


def test_it_trains_on_cpus(tmp_path):
    done = train("horovodrun", 2, tmp_path / "run")
    assert done.code == 0, done.output
