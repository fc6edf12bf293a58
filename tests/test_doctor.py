"""Doctor in broken environments: it runs, names what is wrong, and says what to do.

Modules are broken by others of their names that come first on PYTHONPATH; the rest is real.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import horovod
import pytest

from hvd_gan.checks.horovod import SUFFIX
from hvd_gan.doctor import main
from tests.launch import BIN, ROOT, environment

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
KEYS = {"name", "severity", "detail", "cure", "rank", "host", "rows"}
# What Horovod built for TensorFlow 2.15.1 wants from it, and 2.21.0 does not have.
SYMBOL = "_ZN10tensorflow15TensorShapeBaseINS_11TensorShapeEEC1EN4absl12lts_202301254SpanIKlEE"
MISSING = "raise ModuleNotFoundError(\"No module named '{0}'\", name='{0}')"
LEFT_OUT = "raise ImportError('left out, to be quick')"
ENDS_THE_PROCESS = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


class Report:
    """A run of doctor: its exit code, and its findings by name."""

    def __init__(self, done: subprocess.CompletedProcess) -> None:
        assert done.stdout, done.stderr
        self.code = done.returncode
        self.findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
        for finding in self.findings.values():
            assert set(finding) == KEYS
            assert (finding["cure"] is None) == (finding["severity"] == "ok"), finding
            assert "\n" not in (finding["cure"] or "")

    def of(self, name: str) -> tuple[str, str, str]:
        finding = self.findings[name]
        return finding["severity"], finding["detail"], finding["cure"] or ""


def doctor(
    *flags: str,
    shims: Path | None = None,
    python: str = sys.executable,
    before: tuple[str, ...] = (),
    limit: Callable[[], None] | None = None,
    **variables: str | None,
) -> Report:
    path = os.pathsep.join(str(folder) for folder in (shims, ROOT) if folder)
    changed = {**environment(), "PYTHONPATH": path, **variables}
    done = subprocess.run(
        [*before, python, "-m", "hvd_gan.doctor", "--json", *flags],
        cwd=ROOT,
        env={name: value for name, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    return Report(done)


@pytest.fixture
def shims(tmp_path):
    return tmp_path / "shims"


def shim(folder: Path, **modules: str) -> Path:
    """Modules that come before the real ones of their names."""
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def broken_horovod(folder: Path, built_for: str | None = None, library: str = "") -> Path:
    """Horovod's files with another extension, from C, or with none."""
    source = Path(horovod.__file__).parent
    shutil.copytree(
        source, folder / "horovod", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    if built_for is not None:
        (folder / "horovod" / "metadata.json").write_text(json.dumps({"tensorflow": built_for}))
    if library:
        compile_library(folder / "horovod" / "tensorflow" / f"mpi_lib{SUFFIX}", library)
    return folder


def compile_library(path: Path, text: str, *flags: str) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(path), "-", "-x", "none", *flags]
    subprocess.run(command, input=text, text=True, check=True)


def wants(symbol: str) -> str:
    return f"void {symbol}(void);\nvoid horovod_init(void) {{ {symbol}(); }}\n"


def installed_tensorflow() -> str:
    return json.loads((Path(horovod.__file__).parent / "metadata.json").read_text())["tensorflow"]


def test_this_environment_is_well():
    report = doctor("--quick")
    installed = ("python", "numpy", "tensorflow", "horovod", "mpi4py", "mpirun", "horovodrun")
    machine = ("cores", "memory", "shared memory", "open files", "nics", "host name", "clock")
    for name in (*installed, "hvd_gan", *machine):
        assert name in report.findings
    for name in installed:
        assert report.of(name)[0] == "ok", report.of(name)
    assert "with MPI, Gloo" in report.of("horovod")[1]
    assert "Open MPI" in report.of("mpi4py")[1] and "Horovod uses" in report.of("mpi4py")[1]
    severities = {finding["severity"] for finding in report.findings.values()}
    worst = next(one for one in ("error", "warning", "note", "ok") if one in severities)
    assert report.code == {"ok": 0, "note": 0, "warning": 1, "error": 2}[worst]


def test_a_bare_python_lacks_everything_and_each_lack_has_its_cure():
    report = doctor("--quick", python=sys._base_executable, PYTHONNOUSERSITE="1")
    assert report.code == 2
    for name in ("tensorflow", "horovod", "mpi4py"):
        severity, detail, cure = report.of(name)
        assert severity in ("error", "note") and "install" in detail + cure + report.of("numpy")[2]
    assert report.of("horovod")[:2] == ("error", "not installed for this Python")


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10"])
def test_a_python_that_is_too_old_is_named(version):
    pythons = [f"/usr/bin/python{version}", *PYENV.glob(f"versions/{version}.*/bin/python")]
    found = [str(python) for python in pythons if Path(python).exists()]
    if not found:
        pytest.skip(f"needs a Python {version}")
    report = doctor(python=found[0])
    assert report.code == 2
    assert f"{version}." in report.of("python")[1] and "PYTHON=" in report.of("python")[2]


def test_an_extension_that_is_missing_is_found(shims):
    report = doctor("--quick", shims=broken_horovod(shims))
    severity, detail, cure = report.of("horovod")
    assert (report.code, severity) == (2, "error")
    assert f"extension is missing: {shims}" in detail and f"take {shims} off PYTHONPATH" in cure


def test_an_extension_of_another_python_is_found(shims):
    broken_horovod(shims)
    (shims / "horovod" / "tensorflow" / "mpi_lib.cpython-36m-x86_64-linux-gnu.so").touch()
    assert "built for another Python" in doctor("--quick", shims=shims).of("horovod")[1]


def test_a_horovod_for_another_tensorflow_is_found(shims):
    report = doctor("--quick", shims=broken_horovod(shims, "2.3.4", wants(SYMBOL)))
    severity, detail, _ = report.of("horovod")
    assert (report.code, severity) == (2, "error")
    assert f"built for TensorFlow 2.3.4, and {installed_tensorflow()} is installed" in detail
    assert "tensorflow::TensorShapeBase" in detail and "another TensorFlow's" in detail


def test_an_undefined_symbol_is_named_even_if_the_versions_agree(shims):
    broken = broken_horovod(shims, installed_tensorflow(), wants(SYMBOL))
    severity, detail, _ = doctor("--quick", shims=broken).of("horovod")
    assert severity == "error"
    assert "undefined symbol tensorflow::TensorShapeBase" in detail and "Abseil 20230125" in detail


def test_an_mpi_library_that_is_not_found_is_named(shims, tmp_path):
    absent = tmp_path / "libmpi.so.77"
    compile_library(absent, "void MPI_Init(void) {}", "-Wl,-soname,libmpi.so.77")
    broken_horovod(shims, installed_tensorflow())
    extension = shims / "horovod" / "tensorflow" / f"mpi_lib{SUFFIX}"
    compile_library(extension, wants("MPI_Init"), str(absent))
    absent.unlink()
    severity, detail, cure = doctor("--quick", shims=shims).of("horovod")
    assert severity == "error" and "libmpi.so.77 is not found" in detail and "module load" in cure


@pytest.mark.parametrize(
    ("modules", "name", "words"),
    [
        ({"numpy": "raise ImportError('multiarray failed')"}, "numpy", "multiarray failed"),
        ({"tensorflow": "raise ImportError('no libcudart')"}, "tensorflow", "no libcudart"),
        ({"tensorflow": ENDS_THE_PROCESS}, "tensorflow", "crashed: SIGSEGV"),
        ({"tensorflow": "import sys; sys.exit(3)"}, "tensorflow", "SystemExit"),
        ({"mpi4py": "raise ImportError('no libmpi')"}, "mpi4py", "no libmpi"),
        ({"rich": MISSING.format("rich")}, "horovod", "No module named 'rich'"),
        ({"pydantic": MISSING.format("pydantic")}, "hvd_gan", "No module named 'pydantic'"),
    ],
    ids=["numpy", "tensorflow", "crash", "exit", "mpi4py", "rich", "pydantic"],
)
def test_a_module_that_does_not_load_is_named_with_what_hides_it(modules, name, words, shims):
    if name == "horovod" and installed_tensorflow() < "2.16":
        pytest.skip("that Keras does without rich")
    report = doctor("--quick", shims=shim(shims, **modules))
    severity, detail, cure = report.of(name)
    assert (report.code, severity) == (2, "error")
    assert words in detail and f"take {shims} off PYTHONPATH" in cure


def test_two_mpi_libraries_are_found(tmp_path):
    # A copy is another library to the loader, as one of a loaded module would be.
    other = tmp_path / "lib"
    shutil.copytree(Path(sys.prefix, "lib", "openmpi"), other / "openmpi", symlinks=True)
    for library in Path(sys.prefix, "lib").glob("lib*.so*"):
        shutil.copy(library, other)
    severity, detail, cure = doctor("--quick", LD_LIBRARY_PATH=str(other)).of("mpi4py")
    assert severity == "error" and str(other) in detail and f"take {other} off LD_LIB" in cure


def test_another_mpirun_first_on_the_path_is_found(tmp_path, shims):
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    program.chmod(0o755)
    light = shim(shims, tensorflow=LEFT_OUT)
    severity, detail, cure = doctor(
        "--quick", shims=light, PATH=f"{tmp_path}{os.pathsep}{environment()['PATH']}"
    ).of("mpirun")
    assert severity == "error" and f"{program} is Open MPI 4.1.4" in detail
    assert cure.startswith("export PATH=")


def test_a_path_without_mpirun_is_found(tmp_path, shims):
    light = shim(shims, tensorflow=LEFT_OUT)
    (tmp_path / "empty").mkdir()
    report = doctor("--quick", shims=light, PATH=str(tmp_path / "empty"))
    assert report.of("mpirun")[:2] == ("error", "not on the PATH")
    assert f"export PATH={BIN}:$PATH" in report.of("horovodrun")[2]


def test_gpus_that_are_named_and_not_there_are_found(shims):
    light = shim(shims, tensorflow=LEFT_OUT)
    severity, detail, cure = doctor("--quick", shims=light, CUDA_VISIBLE_DEVICES="7").of("gpus")
    assert severity == "warning" and "'7'" in detail and "unset CUDA_VISIBLE_DEVICES" in cure


def test_gpus_that_this_tensorflow_cannot_use_are_found(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-1)'\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{environment()['PATH']}"
    severity, detail, cure = doctor("--quick", PATH=path).of("gpus")
    assert severity == "warning" and "1 here, and TensorFlow is built for CPUs" in detail
    assert "GPU=1" in cure


def test_a_low_limit_on_open_files_is_found(shims):
    light = shim(shims, tensorflow=LEFT_OUT)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    severity, detail, cure = doctor("--quick", shims=light, limit=limit).of("open files")
    assert severity == "warning" and "128" in detail and "limits.conf" in cure


def test_a_small_shared_memory_is_found(shims):
    light = shim(shims, tensorflow=LEFT_OUT)
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'
    inside = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("needs root, for a mount of its own")
    severity, detail, cure = doctor("--quick", shims=light, before=inside).of("shared memory")
    assert severity == "warning" and "64 MB of 64 MB" in detail and "--shm-size" in cure


def test_a_working_folder_that_was_removed_and_an_empty_tmpdir_do_no_harm(shims, tmp_path):
    light = shim(shims, tensorflow=LEFT_OUT)
    gone = tmp_path / "gone"
    gone.mkdir()
    inside = ("sh", "-c", 'cd "$0"; rmdir "$0"; exec "$@"', str(gone))
    report = doctor("--quick", shims=light, before=inside, TMPDIR="")
    assert report.of("temporary files")[0] != "error" and report.of("mpirun")[0] == "ok"
    assert report.of("working folder")[0] == "error"
    report = doctor("--hosts", "localhost:1", shims=light, before=inside, TMPDIR="")
    assert report.of("hvd_gan")[0] == "ok"


def test_hosts_are_checked_for_the_interface_that_was_chosen():
    for hosts in ("localhost:1", "localhost:1,127.0.0.1:1"):
        report = doctor("--hosts", hosts, "--nic", "nope0")
        assert report.code == 2 and report.of("network")[0] == "error"
        assert "--nic nope0: not there on localhost" in report.of("network")[1]


def test_a_host_name_that_cannot_be_one_is_told():
    report = doctor("--hosts", "a..b:4")
    assert report.code == 2 and "name is not known" in report.of("ssh")[1]


def test_quick_is_not_taken_for_hosts(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--hosts", "localhost:1", "--quick"])
    assert ended.value.code == 2 and "not allowed with" in capsys.readouterr().err


def test_processes_that_each_think_they_are_alone_are_found():
    report = doctor("--quick", OMPI_COMM_WORLD_SIZE="8")
    severity, detail, cure = report.of("start")
    assert (report.code, severity) == (2, "error")
    assert "OMPI_COMM_WORLD_SIZE says 8 processes, but Horovod sees 1" in detail
    assert "mpirun or horovodrun of this environment" in cure


def test_ten_steps_are_trained_where_nothing_is_broken():
    severity, detail, _ = doctor().of("training")
    assert severity == "ok" and detail.startswith("10 steps of the demo")


def test_a_person_reads_lines_with_cures(shims):
    light = shim(shims, tensorflow="raise ImportError('no libcudart')")
    done = subprocess.run(
        [sys.executable, "-m", "hvd_gan.doctor", "--quick"],
        cwd=ROOT,
        env={**environment(), "PYTHONPATH": f"{light}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and not done.stderr
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "no libcudart" in line)
    assert lines[at].split()[:2] == ["error", "tensorflow"]
    assert lines[at + 1].strip().startswith(f"cure: take {light} off PYTHONPATH")
    assert "\x1b" not in done.stdout
