"""Facts about a machine, judged elsewhere. Needs Python's own library and nothing else.

It also runs where this package may not be installed: `checks.hosts` sends this file's text to
Python on another host, as `main`, and talks to it in lines of JSON.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path

PACKAGES = ("tensorflow", "tensorflow-cpu", "horovod", "mpi4py", "numpy")


def survey() -> dict:
    """All facts, as plain values. Sizes are bytes; -1 means no limit."""
    return {
        "host": socket.gethostname(),
        "cwd": working_folder(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "versions": versions(),
        "package": package_files("hvd_gan"),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cores": len(os.sched_getaffinity(0)),
        "all_cores": os.cpu_count() or 1,
        "quota": cpu_quota(),
        "load": os.getloadavg()[0],
        "memory": memory(),
        "shm": space("/dev/shm"),
        "tmp": space(os.environ.get("TMPDIR") or "/tmp"),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "infiniband": sorted(path.name for path in Path("/sys/class/infiniband").glob("*")),
        "nics": nics(),
        "default_nic": default_nic(),
        "chosen_nic": os.environ.get("HVD_GAN_NIC"),
        "own_address": resolve(socket.gethostname()),
        "gpus": gpus(),
        "cuda_visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "time": time.time(),
    }


def working_folder() -> str:
    """The folder that this process works in, or nothing where that was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def versions() -> dict:
    """Versions of installed packages, without importing them."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except Exception:  # half-removed packages raise all sorts of errors
            continue
    return found


def package_files(package: str) -> dict:
    """Where a package lies, and a short digest of each of its files; {} if it is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        return {}
    folder = Path(spec.origin).parent
    paths = [*folder.rglob("*.py"), *folder.rglob("*.yaml")]
    files = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(paths)
    }
    return {"folder": str(folder), "files": files}


def cpu_quota() -> float:
    """The CPU time that a container may use, in cores; -1 where there is no limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text()
        except (OSError, ValueError):
            return -1
    return -1 if limit in ("max", "-1") else int(limit) / int(period)


def memory(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> dict:
    """The memory of the machine, or of the container where that is less."""
    # In kB; without the list, what the kernel tells otherwise.
    found = numbers(Path(proc, "meminfo"))
    page = os.sysconf("SC_PAGE_SIZE") // 1024
    total = found.get("MemTotal", os.sysconf("SC_PHYS_PAGES") * page) * 1024
    unused = found.get("MemFree", os.sysconf("SC_AVPHYS_PAGES") * page)
    free = found.get("MemAvailable", unused) * 1024
    try:
        limit = int(Path(cgroup, "memory.max").read_text())
        used = int(Path(cgroup, "memory.current").read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return {"total": total, "free": free}
    # Files that were read count as used until somebody else wants the memory.
    used -= numbers(Path(cgroup, "memory.stat")).get("inactive_file", 0)
    return {"total": min(total, limit), "free": min(free, max(0, limit - used))}


def numbers(path: Path) -> dict:
    """What the kernel lists in a file as `NAME: NUMBER` or `NAME NUMBER`; {} without the file."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    return {name: int(value) for name, value in re.findall(r"^(\w+):?\s+(\d+)", text, re.MULTILINE)}


def space(path: str) -> dict:
    """The size of a file system and what is free there; `problem` if one cannot write to it."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
        usage = shutil.disk_usage(path)
    except OSError as error:
        return {"path": path, "problem": error.strerror or str(error)}
    return {"path": path, "size": usage.total, "free": usage.free}


def nics() -> list:
    """The network interfaces: name, IPv4 address and prefix (None without), up, Mbit/s or -1."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:

        def ask(code: int, name: str) -> bytes:
            try:
                return fcntl.ioctl(asker.fileno(), code, struct.pack("256s", name.encode()))
            except OSError:
                return b""

        for _, name in socket.if_nameindex():
            # SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFFLAGS of netdevice(7); IFF_UP and IFF_RUNNING.
            address, mask, flags = (ask(code, name) for code in (0x8915, 0x891B, 0x8913))
            up = bool(flags) and struct.unpack("H", flags[16:18])[0] & 0x41 == 0x41
            bits = bin(struct.unpack("!I", mask[20:24])[0]).count("1") if mask else 0
            found.append(
                {
                    "name": name,
                    "address": socket.inet_ntoa(address[20:24]) if address else None,
                    "prefix": bits if address else None,
                    "up": up,
                    "speed": nic_speed(name),
                }
            )
    return found


def nic_speed(name: str) -> int:
    """Mbit/s, or -1 where the interface does not say."""
    try:
        return int(Path("/sys/class/net", name, "speed").read_text())
    except (OSError, ValueError):
        return -1


def default_nic() -> str:
    """The interface of the default route, or nothing."""
    try:
        text = Path("/proc/net/route").read_text()
    except OSError:
        return ""
    found = re.search(r"^(\S+)\s+00000000\s", text, re.MULTILINE)
    return found[1] if found else ""


def resolve(name: str) -> str:
    """The address of a name, or nothing."""
    try:
        return socket.gethostbyname(name)
    # No host name may have an empty part, as a..b has, or one that is too long.
    except (OSError, UnicodeError):
        return ""


def gpus() -> dict:
    """NVIDIA's GPUs as the driver's own tool lists them; `problem` is what it says instead.

    `devices` are those that the driver has made: the tool may be there without a GPU.
    """
    devices = sorted(p.name for p in Path("/dev").glob("nvidia*") if re.search(r"\d$", p.name))
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error) if devices else ""
        return {"names": devices, "problem": problem, "devices": devices}
    names = [line.split(" (UUID")[0] for line in done.stdout.splitlines() if line.startswith("GPU")]
    failed = done.returncode != 0 and "No devices" not in done.stdout
    said = (done.stdout + done.stderr).strip().splitlines()
    problem = said[0] if failed and said else ""
    return {"names": names, "problem": problem, "devices": devices}


def listen() -> int:
    """Takes connections on a free port for as long as this process lives; returns the port."""
    server = socket.socket()
    server.bind(("", 0))
    server.listen(64)

    def accept() -> None:
        while True:
            server.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


def reaches(targets: list) -> list:
    """Tries [own address, address, port] each; a list of what went wrong, "" where nothing."""

    def attempt(number: int, own: str, address: str, port: int) -> None:
        try:
            socket.create_connection((address, port), 4, source_address=(own, 0)).close()
            problems[number] = ""
        except OSError as error:
            problems[number] = error.strerror or str(error)

    problems = ["no answer"] * len(targets)
    threads = [
        threading.Thread(target=attempt, args=(number, *target), daemon=True)
        for number, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(6)
    return problems


def main() -> None:
    """Answers, line by line: the facts first, then "time" and lists of targets until the end."""
    port = listen()
    # On a line of its own, though a shell's start-up files may have left one without an end.
    print("\n" + json.dumps({**survey(), "port": port}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        answer = time.time() if question == "time" else reaches(question)
        print(json.dumps(answer), flush=True)
