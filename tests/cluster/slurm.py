"""A Slurm on the hosts of `namespaces`: the first is where one submits, the others compute."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.namespaces import Host

TOOLS = ("slurmctld", "slurmd", "sbatch", "munged")
DAEMONS = "/usr/local/sbin:/usr/sbin:/sbin"

# What differs from a cluster's own configuration, and why: linuxproc and task/none, as there are no
# cgroups in a namespace host; TmpFS with %n, as the hosts share /tmp; short times, as tests wait
# for them (cred_expire is also how long a requeued job is held).
CONFIGURATION = """
ClusterName=test
SlurmctldHost={login}
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,batch_sched_delay=1,sched_interval=2
MailProg=/bin/true
MpiDefault=none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=20
KillWait=5
GresTypes=gpu
NodeName={nodes} CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={nodes} Default=YES State=UP MaxTime=60 PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes={nodes} State=UP MaxTime=60 PriorityTier=2
SlurmdParameters=config_overrides
"""

# Two devices that every machine has stand for GPUs: Slurm counts and binds them.
GPUS = "Name=gpu File=/dev/tty[0-1]\n"
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"

# munged wants its files to be its own: they lie in the host's private /run.
MUNGED = """
set -e
mkdir -p /run/munge; install -m 400 "$1" /run/munge/key; chown -R munge: /run/munge
exec setpriv --reuid munge --regid munge --clear-groups munged --force --foreground \
    --key-file /run/munge/key --seed-file /run/munge/seed --log-file /run/munge/log
"""


def missing() -> str:
    """Why this machine cannot run a Slurm; empty if it can."""
    packages = [tool for tool in TOOLS if shutil.which(tool, path=f"/usr/bin:{DAEMONS}") is None]
    return f"needs {' '.join(packages)}: tests/cluster/install.sh" if packages else ""


@dataclass(frozen=True)
class Slurm:
    """A running Slurm."""

    login: Host
    nodes: Sequence[Host]
    folder: Path

    def submit(self, *words: str, cwd: Path, env: dict[str, str] | None = None) -> str:
        """Submits a job by `sbatch`; returns its number."""
        done = self.login.run("sbatch", "--parsable", *words, cwd=cwd, env=env, check=True)
        return done.stdout.split()[-1]

    def show(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job: JobState, Restarts, ExitCode, NodeList, ..."""
        done = self.login.run("scontrol", "show", "--oneliner", "job", job, check=True)
        pairs = (word.partition("=") for word in done.stdout.split())
        return {name: value for name, _, value in pairs}

    def wait(self, job: str, *states: str, seconds: float = 120) -> dict[str, str]:
        """Waits until a job is in one of some states; by default: until it has ended."""
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        deadline = time.monotonic() + seconds
        while (shown := self.show(job))["JobState"] not in wanted:
            assert time.monotonic() < deadline, f"job {job} is not {wanted}: {shown}"
            time.sleep(0.3)
        return shown

    def start(self, node: Host) -> None:
        """Starts Slurm's daemons on a node."""
        _munge(node, self.folder)
        node.start("slurmd", "-D", "-N", node.name, env={"PATH": _path()})


@contextmanager
def slurm(hosts: Sequence[Host], folder: Path) -> Iterator[Slurm]:
    """Starts Slurm on hosts, which end it with themselves. Its files and logs lie in `folder`."""
    login, *nodes = hosts
    made = Slurm(login, nodes, folder)
    _write_files(made)
    for host in hosts:
        host.run("mount", "--bind", str(folder / "etc"), "/etc/slurm", check=True)
    _munge(login, folder)
    login.start("slurmctld", "-D", env={"PATH": _path()})
    for node in nodes:
        made.start(node)
    _wait_for_nodes(made)
    yield made


def _write_files(slurm: Slurm) -> None:
    names = ",".join(node.name for node in slurm.nodes)
    etc = slurm.folder / "etc"
    etc.mkdir(parents=True)
    for node in slurm.nodes:
        (slurm.folder / f"tmp-{node.name}").mkdir()
    text = CONFIGURATION.format(login=slurm.login.name, nodes=names, folder=slurm.folder)
    (etc / "slurm.conf").write_text(text)
    (etc / "gres.conf").write_text(GPUS)
    (etc / "cgroup.conf").write_text(CGROUPS)
    (slurm.folder / "munge.key").write_bytes(b"no secret: a key for tests only " * 4)


def _munge(host: Host, folder: Path) -> None:
    host.start("sh", "-c", MUNGED, "munged", str(folder / "munge.key"), env={"PATH": _path()})
    deadline = time.monotonic() + 10
    while host.run("munge", "-n").returncode != 0:
        assert time.monotonic() < deadline, f"munged did not start on {host.name}"
        time.sleep(0.05)


def _wait_for_nodes(slurm: Slurm, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while True:
        states = slurm.login.run("sinfo", "-h", "-N", "-p", "all", "-o", "%T").stdout.split()
        if states == ["idle"] * len(slurm.nodes):
            return
        if time.monotonic() > deadline:
            logs = [path.read_text()[-2000:] for path in slurm.folder.glob("*.log")]
            raise RuntimeError("\n".join([f"Slurm's nodes are {states}", *logs]))
        time.sleep(0.1)


def _path() -> str:
    return f"{os.environ['PATH']}:{DAEMONS}"
