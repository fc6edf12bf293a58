"""Hosts on one machine: network namespaces on a bridge, each with a hostname, processes and sshd.

To horovodrun, mpirun and Slurm they look like hosts hv1, hv2, ... that reach each other by name and
by ssh without a password. They share this machine's files, but for /dev/shm, /run, where TMPDIR is,
and what `Host.private` hides. All namespaces are anonymous and end with the processes that hold
them, which end with the process that made them, even if that is killed: nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

NIC = "eth0"
TOOLS = {"ip": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client", "ps": "procps"}

# $1: the host's name, $2: the folder with its files. Each host has a private /run, so that daemons
# of the same kind do not meet there, and a /sys that shows its own NICs. `-l`: /sys is in use.
BOOT = """
set -e
hostname "$1"
umount -l /sys; mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run; mkdir -m 755 /run/sshd; mkdir -m 1777 /run/tmp
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/ssh" /etc/ssh
exec "$3" -D -e
"""

SSH_CONFIG = """
Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    IdentityFile /etc/ssh/user_key
    LogLevel ERROR
"""

SSHD_CONFIG = """
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/user_key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxStartups 100
SetEnv TMPDIR=/run/tmp
"""
# Not /tmp, which is shared: launchers' folders there are named after host and process, and both
# numbers come again.
TEMPORARY = {"TMPDIR": "/run/tmp"}


def missing() -> str:
    """Why this machine cannot build hosts; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux, for network namespaces"
    packages = [package for tool, package in TOOLS.items() if _where(tool) is None]
    if packages:
        return f"needs {' '.join(packages)}: tests/cluster/install.sh"
    works = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True)
    return "" if works.returncode == 0 else "this machine allows no network namespaces"


@dataclass
class Host:
    """One host. `root_pid` is the process, seen from outside, that is its process 1."""

    name: str
    address: str
    root_pid: int
    switch_pid: int
    holder: subprocess.Popen
    started: list[subprocess.Popen] = field(default_factory=list)

    def command(
        self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """What runs a command on this host, `env` being added to this process's environment."""
        added = [f"{name}={value}" for name, value in {**TEMPORARY, **(env or {})}.items()]
        where = ["-C", str(cwd or Path.cwd())]
        return [*_inside(self.root_pid, "--all"), "env", *where, *added, *words]

    def run(
        self,
        *words: str,
        timeout: float = 60,
        check: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command and waits for it. `stdout` has both streams.

        They go to a file, not a pipe: what is left over of a job must not keep the caller waiting.
        """
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            job = self.start(*words, cwd=cwd, env=env, output=output)
            try:
                code = job.wait(timeout)
            except subprocess.TimeoutExpired:
                job.kill()
                code = None
            output.seek(0)
            text = output.read()
        assert code is not None, f"on {self.name}, {words} ran for over {timeout} s:\n{text}"
        assert code == 0 or not check, f"on {self.name}, {words} ended with {code}:\n{text}"
        return subprocess.CompletedProcess(words, code, text)

    def start(
        self,
        *words: str,
        output: IO[str] | int = subprocess.DEVNULL,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen:
        """Starts a command whose both streams go to `output`."""
        job = subprocess.Popen(
            self.command(*words, cwd=cwd, env=env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        self.started.append(job)
        return job

    def processes(self, containing: str = "") -> dict[int, str]:
        """The command lines, by process id on this host, that contain a text.

        Without sshd's own processes, the dead that nobody has buried, and the asking one.
        """
        listing = self.run("ps", "-eo", "pid=,stat=,args=", check=True).stdout
        found = {}
        for line in listing.splitlines():
            pid, state, arguments = line.split(None, 2)
            ours = arguments.startswith(("ps -eo", "sshd:")) or pid == "1" or state[0] == "Z"
            if not ours and containing in arguments:
                found[int(pid)] = arguments
        return found

    def signal(self, name: str, containing: str) -> int:
        """Sends a signal (`KILL`, `STOP`, ...) to the processes found; returns how many."""
        pids = [str(pid) for pid in self.processes(containing)]
        if pids:
            self.run("kill", f"-{name}", *pids)
        return len(pids)

    def private(self, path: Path) -> None:
        """Hides a folder on this host behind an empty one, as if it were on a local disk."""
        self.run("mount", "-t", "tmpfs", "tmpfs", str(path), check=True)

    def cut(self) -> None:
        """Cuts the host off: no packet passes, nobody is told."""
        self._switch("link", "set", self.name, "down")

    def mend(self) -> None:
        """Connects a host again that was cut off."""
        self._switch("link", "set", self.name, "up")

    def kill(self) -> None:
        """Ends the host and every process on it, as when its power fails."""
        # Process 1's end ends all others, and the holder, which buries it.
        if self.holder.poll() is None:
            os.kill(self.root_pid, signal.SIGKILL)
            self.holder.wait()
        for job in self.started:
            job.kill()
            job.wait()

    def _switch(self, *words: str) -> None:
        subprocess.run([*_inside(self.switch_pid, "--net"), "ip", *words], check=True)


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[list[Host]]:
    """`count` hosts, up and reachable. Keys and their files lie in `folder`."""
    names = [f"hv{number + 1}" for number in range(count)]
    addresses = [f"10.77.0.{number + 1}" for number in range(count)]
    _write_files(folder, dict(zip(names, addresses, strict=True)))
    made: list[Host] = []
    switch = _hold("sleep", "infinity", unshared=("--net",), log=folder / "switch.log")
    try:
        switch_pid = _child(switch)
        _inside_run(switch_pid, "ip link add bridge type bridge; ip link set bridge up")
        for name, address in zip(names, addresses, strict=True):
            made.append(_make(name, address, switch_pid, folder))
        for host in made:
            _wait_for_sshd(host, folder)
        yield made
    finally:
        for host in made:
            host.kill()
        _end(switch)


def _make(name: str, address: str, switch_pid: int, folder: Path) -> Host:
    boot = ("sh", "-c", BOOT, "boot", name, str(folder), str(_where("sshd")))
    unshared = ("--net", "--uts", "--ipc", "--pid", "--mount-proc")
    holder = _hold(*boot, unshared=unshared, log=folder / f"{name}.log")
    try:
        pid = _child(holder)
        _inside_run(
            switch_pid,
            f"ip link add {name} type veth peer name {NIC} netns {pid}; "
            f"ip link set {name} master bridge up",
        )
        _inside_run(
            pid,
            f"ip addr add {address}/24 dev {NIC}; ip link set lo up; ip link set {NIC} up",
        )
    except BaseException:
        _end(holder)
        raise
    return Host(name, address, pid, switch_pid, holder)


def _hold(*words: str, unshared: tuple[str, ...], log: Path) -> subprocess.Popen:
    """Starts a process in namespaces of its own; it ends when this process does."""
    bound = ("setpriv", "--pdeathsig", "KILL", "unshare", *unshared, "--fork", "--kill-child")
    with log.open("w") as file:
        return subprocess.Popen(
            [*bound, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )


def _end(holder: subprocess.Popen) -> None:
    holder.kill()
    holder.wait()


def _child(holder: subprocess.Popen, seconds: float = 10) -> int:
    """The process that `unshare --fork` has started; by then the namespaces exist."""
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    deadline = time.monotonic() + seconds
    while holder.poll() is None and time.monotonic() < deadline:
        if pids := children.read_text().split():
            return int(pids[0])
        time.sleep(0.005)
    raise RuntimeError(f"{holder.args} did not start")


def _wait_for_sshd(host: Host, folder: Path, seconds: float = 10) -> None:
    log = folder / f"{host.name}.log"
    deadline = time.monotonic() + seconds
    while "Server listening" not in log.read_text():
        if host.holder.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"host {host.name} did not start: {log.read_text()}")
        time.sleep(0.005)


def _write_files(folder: Path, addresses: Mapping[str, str]) -> None:
    ssh = folder / "ssh"
    ssh.mkdir(parents=True)
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    (ssh / "ssh_config").write_text(SSH_CONFIG)
    (ssh / "sshd_config").write_text(SSHD_CONFIG)
    for key in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / key)], check=True
        )


def _inside(pid: int, *namespaces: str) -> list[str]:
    return ["nsenter", "--target", str(pid), *namespaces]


def _inside_run(pid: int, commands: str) -> None:
    subprocess.run([*_inside(pid, "--net"), "sh", "-ec", commands], check=True)


def _where(tool: str) -> str | None:
    # sshd and ip are not on every user's PATH, and sshd wants to be started by its whole path.
    return shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
