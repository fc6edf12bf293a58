"""The job scripts, run with stand-ins for Slurm's commands that note how they are called."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hvd_gan import train
from hvd_gan.config_files import load
from tests.launch import ROOT

JOBS = ROOT / "jobs"
SCRIPTS = sorted(JOBS.glob("*.sbatch"))
PAGE = JOBS / "README.md"

# Each answers as its variables say, and notes the arguments of what starts the ranks.
SRUN = r"""#!/bin/bash
case "$*" in
    --mpi=list) echo "MPI plugin types are..."; echo "${STUB_MPI-pmix}" >&2 ;;
    --help) echo "${STUB_SRUN_HELP---overlap}" ;;
    *WORLD*) exit "${STUB_PROBE-0}" ;;
    *" true" | *--overlap*) echo "$*" >"$STUB/asked"; exit "${STUB_ANSWER-0}" ;;
    *) printf '%s\0' srun "$@" >"$STUB/called"; env >"$STUB/environment"; exit "${STUB_CODE-0}" ;;
esac
"""
MPIRUN = r"""#!/bin/bash
printf '%s\0' mpirun "$@" >"$STUB/called"; env >"$STUB/environment"
echo "${STUB_CODE-0}" >"$HVD_GAN_EXIT_FILE"
"""
SCONTROL = r"""#!/bin/bash
case "$*" in
    requeue*) echo "$*" >>"$STUB/requeued" ;;
    *) echo "   Command=$STUB_SCRIPT some words"; echo "${STUB_JOB-JobState=RUNNING}" ;;
esac
"""


@dataclass(frozen=True)
class Ended:
    """How a script ended: what started the ranks, in words, and in which environment."""

    code: int
    output: str
    called: list[str]
    environment: dict[str, str]
    requeued: str

    @property
    def flags(self) -> list[str]:
        """What `train` was given."""
        return self.called[self.called.index("hvd_gan.train") + 1 :]


@pytest.fixture
def submit(tmp_path):
    """A function that runs a script as Slurm would, with some variables."""
    programs = tmp_path / "venv/bin"
    programs.mkdir(parents=True)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("mpirun", MPIRUN), ("python", "")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def run(script, *arguments, **variables):
        environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "STUB": str(tmp_path),
            "STUB_SCRIPT": str(JOBS / script),
            "HVD_GAN_VENV": str(programs.parent),
            "SLURM_JOB_ID": "7",
            "SLURM_NNODES": "2",
            **variables,
        }
        # Slurm runs a copy of the script that lies elsewhere.
        copy = shutil.copy(JOBS / script, tmp_path / "slurm_script")
        done = subprocess.run(
            ["bash", copy, *arguments],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        noted = {name: tmp_path / name for name in ("called", "environment", "requeued")}
        called, environ, requeued = (
            path.read_text() if path.exists() else "" for path in noted.values()
        )
        pairs = (line.partition("=") for line in environ.splitlines())
        return Ended(
            done.returncode,
            done.stdout,
            called.split("\0")[:-1],
            {name: value for name, _, value in pairs},
            requeued.strip(),
        )

    return run


def documented() -> list[str]:
    """The `sbatch` commands of the page and of the scripts' first lines."""
    lines = [line for path in (PAGE, *SCRIPTS) for line in path.read_text().splitlines()]
    return sorted(
        {line.strip("# ") for line in lines if re.match(r"[# ]   ([A-Z]+=\S+ )*sbatch ", line)}
    )


def test_every_script_has_a_command():
    assert {script.name for script in SCRIPTS} <= {
        Path(word).name for line in documented() for word in line.split()
    }


@pytest.mark.parametrize("line", documented())
def test_what_is_documented_starts_a_training_that_would_be_accepted(line, submit, tmp_path):
    words = shlex.split(line)
    first = words.index("sbatch")
    script = next(number for number, word in enumerate(words) if word.endswith(".sbatch"))
    variables = dict(word.split("=", 1) for word in words[:first])
    if any(word.startswith("--array") for word in words):
        variables |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "4"}
        block = re.search(r"`rates.txt`.*?\n\n(.*?)\n\n", PAGE.read_text(), re.DOTALL)
        (tmp_path / "rates.txt").write_text(re.sub("(?m)^    ", "", block[1]) + "\n")
    name = Path(words[script]).name
    if name == "train-container.sbatch":
        variables["STUB_SRUN_HELP"] = "--container-image"
    ended = submit(name, *words[script + 1 :], **variables)
    assert ended.code == 0, ended.output
    options = train.parser().parse_intermixed_args(ended.flags)
    assert options.run is not None
    load(options.preset, (), options.overrides)


def test_all_words_reach_the_training_as_they_are(submit):
    given = ["--preset", "demo", "data.hole={kind: strokes}", "--run", "/scratch/a b", "seed=1"]
    assert submit("train.sbatch", *given).flags == given


def test_a_sweeps_line_is_split_like_a_shell_does_and_nothing_is_run(submit, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("seed=1\n'data.hole={kind: strokes}' \"a=$(touch x) *\" seed=2\n\n")
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2"}
    ended = submit("sweep.sbatch", str(lines), "runs", "--preset", "demo", **array)
    common = ["--run", "runs/2", "--preset", "demo"]
    assert ended.flags == [*common, "data.hole={kind: strokes}", "a=$(touch x) *", "seed=2"]
    array["SLURM_ARRAY_TASK_ID"] = "3"
    ended = submit("sweep.sbatch", str(lines), "runs", **array)
    assert ended.code == 2 and f"{lines} has nothing in line 3" in ended.output


@pytest.mark.parametrize(
    ("line", "says"),
    [("seed=1 model.build=it's", "a quote has no partner"), (" \t ", "has nothing in line 1")],
)
def test_a_sweeps_line_that_cannot_be_read_trains_nothing(line, says, submit, tmp_path):
    (tmp_path / "lines").write_text(f"{line}\n")
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "1"}
    ended = submit("sweep.sbatch", "lines", "runs", **array)
    assert ended.code == 2 and says in ended.output and not ended.called


@pytest.mark.parametrize(
    ("variables", "launcher", "says"),
    [
        ({}, "srun", "Slurm's PMIx starts this MPI"),
        ({"STUB_PROBE": "1"}, "mpirun", "srun --mpi=pmix does not start this MPI"),
        ({"STUB_MPI": "pmi2"}, "mpirun", "this Slurm has no PMIx"),
        ({"LAUNCHER": "srun", "STUB_PROBE": "1"}, "srun", "as LAUNCHER says"),
    ],
)
def test_the_launcher_is_the_one_that_works_and_is_named(variables, launcher, says, submit):
    ended = submit("train.sbatch", **variables)
    assert ended.called[0] == launcher
    assert f"hvd_gan: ranks start by {launcher}: {says}\n" in ended.output
    if launcher == "srun":
        assert ended.called[1:3] == ["--mpi=pmix", "--kill-on-bad-exit=1"]


def test_srun_gets_the_cores_and_mpirun_the_gpus_that_slurm_would_keep_back(submit):
    asked = {"SLURM_CPUS_PER_TASK": "8", "SLURM_GPUS_PER_TASK": "1", "SLURM_GPUS_ON_NODE": "4"}
    by_srun = submit("train.sbatch", **asked).environment
    assert (by_srun["SRUN_CPUS_PER_TASK"], by_srun["SLURM_GPUS_PER_TASK"]) == ("8", "1")
    by_mpirun = submit("train.sbatch", LAUNCHER="mpirun", **asked).environment
    assert "SLURM_GPUS_PER_TASK" not in by_mpirun and by_mpirun["SLURM_GRES"] == "gpu:4"
    # A daemon's step with the cores of one task would hold all of its node's ranks.
    assert "SRUN_CPUS_PER_TASK" not in by_mpirun


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_what_is_exported_here_reaches_the_ranks_whatever_sbatch_was_told(launcher, submit):
    ended = submit("train.sbatch", LAUNCHER=launcher, SLURM_EXPORT_ENV="NONE")
    assert ended.environment["SLURM_EXPORT_ENV"] == "ALL"


@pytest.mark.parametrize("options", ["--overlap", "--no-such-thing"])
def test_nodes_are_asked_as_this_slurm_understands(options, submit, tmp_path):
    submit("train.sbatch", LAUNCHER="srun", STUB_SRUN_HELP=options, **FAILED)
    asked = (tmp_path / "asked").read_text().split()
    assert ("--overlap" in asked) == (options == "--overlap") and asked[-1] == "true"


def test_pyxis_gets_the_image_and_the_folders(submit, tmp_path):
    pyxis = {"IMAGE": "hub#org/hvd-gan:gpu", "STUB_SRUN_HELP": "--container-image=PATH"}
    ended = submit("train-container.sbatch", "--preset", "demo", STUB_PROBE="1", **pyxis)
    assert ended.called == [
        *("srun", "--mpi=pmix", "--kill-on-bad-exit=1"),
        "--container-image=hub#org/hvd-gan:gpu",
        f"--container-mounts={tmp_path}:{tmp_path},/tmp:/tmp",
        f"--container-workdir={tmp_path}",
        *("python", "-m", "hvd_gan.train", "--preset", "demo"),
    ]


def test_pyxis_gets_a_file_by_its_whole_path(submit, tmp_path):
    """Without a slash in front it takes it for a name in a registry."""
    (tmp_path / "hvd-gan.sqsh").touch()
    ended = submit(
        "train-container.sbatch", IMAGE="hvd-gan.sqsh", STUB_SRUN_HELP="--container-image"
    )
    assert f"--container-image={tmp_path}/hvd-gan.sqsh" in ended.called


@pytest.mark.parametrize(("gpus", "nvidia"), [({}, []), ({"SLURM_GPUS_ON_NODE": "4"}, ["--nv"])])
def test_apptainer_gets_the_image_the_folders_and_the_gpus(gpus, nvidia, submit, tmp_path):
    (tmp_path / "venv/bin/apptainer").touch(mode=0o755)
    ended = submit("train-container.sbatch", "seed=1", IMAGE="a.sif", MOUNTS="/d:/data", **gpus)
    assert ended.called == [
        *("srun", "--mpi=pmix", "--kill-on-bad-exit=1", "apptainer", "exec", *nvidia),
        *("--bind", "/d:/data", "--pwd", str(tmp_path), "a.sif"),
        *("python", "-m", "hvd_gan.train", "seed=1"),
    ]


@pytest.mark.parametrize(
    ("script", "arguments", "variables", "says"),
    [
        ("train.sbatch", ["--fresh"], {}, "--fresh would start over at each requeue"),
        ("train.sbatch", [], {"HVD_GAN_VENV": "/nowhere"}, "no environment in /nowhere: run"),
        ("train.sbatch", [], {"LAUNCHER": "prun"}, "LAUNCHER=prun is none of auto, srun, mpirun"),
        ("train-container.sbatch", [], {}, "IMAGE is not set"),
        ("train-container.sbatch", [], {"IMAGE": "a"}, "neither pyxis"),
        ("train-container.sbatch", [], {"IMAGE": "a", "ENGINE": "docker"}, "ENGINE=docker is none"),
        ("sweep.sbatch", ["lines"], {}, "wants a file of settings and a folder"),
        ("sweep.sbatch", ["lines", "runs"], {}, "there is no file lines"),
        ("sweep.sbatch", ["/etc/passwd", "runs"], {}, "submit sweep.sbatch with --array=1-N"),
    ],
)
def test_a_mistake_is_refused_with_the_cure(script, arguments, variables, says, submit):
    ended = submit(script, *arguments, **variables)
    assert ended.code == 2 and says in ended.output
    assert not ended.called and not ended.requeued


STOPPED = {"STUB_CODE": "75"}
FAILED = {"STUB_CODE": "1"}
MAX_TIME = ["--max-time", "2:00:00"]


@pytest.mark.parametrize(
    ("variables", "arguments", "again"),
    [
        ({}, [], False),
        (STOPPED, [], True),
        (STOPPED, MAX_TIME, False),
        (STOPPED, ["--max-time=90m"], False),
        ({**STOPPED, "STUB_JOB": "JobState=COMPLETING Reason=None"}, [], False),
        ({**STOPPED, "STUB_JOB": "JobState=COMPLETING Reason=TimeLimit"}, [], True),
        ({**STOPPED, "SLURM_RESTART_COUNT": "100"}, [], False),
        ({"STUB_CODE": "2"}, [], False),
        (FAILED, [], False),
        ({**FAILED, "STUB_ANSWER": "1"}, MAX_TIME, True),
        ({**FAILED, "STUB_JOB": "JobState=RUNNING PreemptTime=None"}, [], False),
        ({**FAILED, "STUB_JOB": "JobState=RUNNING PreemptTime=2026-01-01T00:00:00"}, [], True),
        # Ended by the signal, before the ranks took it.
        ({"STUB_CODE": "138"}, [], True),
    ],
)
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_job_goes_back_into_the_queue_when_that_helps(
    launcher, variables, arguments, again, submit
):
    ended = submit("train.sbatch", *arguments, LAUNCHER=launcher, **variables)
    assert ended.code == int(variables.get("STUB_CODE", 0))
    assert ended.requeued == ("requeue 7" if again else "")


def test_an_element_of_an_array_goes_back_alone(submit):
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert submit("train.sbatch", **STOPPED, **array).requeued == "requeue 7_3"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_nothing_to_say():
    scripts = [*SCRIPTS, ROOT / "install.sh", ROOT / ".ci/run", *ROOT.glob("tests/**/*.sh")]
    done = subprocess.run(
        # SC2317: install.sh hands functions on by name.
        ["shellcheck", "--external-sources", "--exclude=SC2317", *map(str, scripts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
