"""Images and containers without an engine: buildah, and network namespaces as their network.

A container here is what `docker run` makes of an image but for one thing: chroot isolation gives
it no network of its own, so a container that needs one is started in a namespace made for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.launch import Finished

BASE = "docker.io/library/debian:bookworm-slim"
TOOLS = ("buildah", "debootstrap", "ip", "nsenter", "unshare", "git", "ssh-keygen")


def why_not() -> str:
    """Why this machine cannot build images; empty if it can."""
    if os.geteuid() != 0:
        return "building an image without an engine needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    packages = "apt-get install buildah debootstrap iproute2 git openssh-client"
    return f"{', '.join(missing)} missing: {packages}" if missing else ""


@dataclass(frozen=True)
class Storage:
    """A folder with images and containers, apart from the machine's own."""

    folder: Path

    def buildah(self, *arguments: str | Path, timeout: float = 600) -> str:
        """Runs buildah, which has to succeed, and returns what it says."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        """What buildah is started with: what a killed one leaves behind goes with the storage."""
        return {**os.environ, "TMPDIR": str(self.folder)}

    def command(self, *arguments: str | Path) -> list[str]:
        """buildah's command line."""
        places = ("--root", self.folder / "images", "--runroot", self.folder / "run")
        return ["buildah", *map(str, (*places, "--storage-driver", "overlay", *arguments))]

    def make_base(self) -> None:
        """An image with Debian in it, under the name that the Dockerfile starts FROM."""
        tree = self.folder / "base"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", tree],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for package in (tree / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        name = self.buildah("from", "scratch").strip()
        self.buildah("add", "--quiet", name, f"{tree}/", "/")
        self.buildah("commit", "--quiet", "--rm", name, BASE)
        shutil.rmtree(tree)

    def build(self, checkout: Path, tag: str, target: str | None = None) -> str:
        """Builds docker/Dockerfile as a checkout has it. Returns the log."""
        options: list[str | Path] = ["--pull-never", "--isolation", "chroot", "--layers"]
        if certificates := os.environ.get("PIP_CERT"):
            options += ["--secret", f"id=ca,src={certificates}"]
        if target:
            options += ["--target", target]
        # The format that knows a HEALTHCHECK.
        options += ["--format", "docker", "--tag", tag, "--file", checkout / "docker/Dockerfile"]
        return self.buildah("build", *options, checkout, timeout=2400)

    def image(self, tag: str) -> dict:
        """An image's configuration: Entrypoint, Cmd, User, Env, Healthcheck, ..."""
        return json.loads(self.buildah("inspect", "--type", "image", tag))["Docker"]["config"]

    def layers(self, tag: str) -> list[str]:
        """An image's layers by their digests, the lowest first."""
        return json.loads(self.buildah("inspect", "--type", "image", tag))["OCIv1"]["rootfs"][
            "diff_ids"
        ]

    @contextmanager
    def container(self, tag: str, **options) -> Iterator[Container]:
        """A new container of an image, removed at the end."""
        name = self.buildah("from", "--pull-never", tag).strip()
        try:
            image = self.image(tag)
            yield Container(self, name, tuple(image["Entrypoint"]), tuple(image["Cmd"]), **options)
        finally:
            self.buildah("rm", name)


@dataclass(frozen=True)
class Container:
    """A container and the options of `docker run` that it is started with."""

    storage: Storage
    name: str
    entrypoint: tuple[str, ...]
    default: tuple[str, ...]
    hostname: str = "container"
    user: str | None = None
    volumes: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None

    def command(self, *arguments: str) -> list[str]:
        """What starts it, like `docker run IMAGE ARGUMENTS`. Killed, it takes all of it along."""
        options = ["--isolation", "chroot", "--no-hosts", "--hostname", self.hostname]
        options += ["--user", self.user] if self.user else []
        for inside, outside in self.volumes.items():
            options += ["--volume", f"{outside}:{inside}"]
        for name, value in self.environment.items():
            options += ["--env", f"{name}={value}"]
        words = (*self.entrypoint, *(arguments or self.default))
        inside = self.storage.command("run", *options, self.name, "--", *words)
        apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
        network = ["nsenter", f"--net=/run/netns/{self.namespace}"] if self.namespace else []
        return [*network, *apart, *inside]

    def run(self, *arguments: str, timeout: float = 240) -> Finished:
        """Starts it and waits for its end."""
        with self.start(*arguments) as process:
            started = time.monotonic()
            output, _ = process.communicate(timeout=timeout)
            return Finished(process.returncode, output, time.monotonic() - started)

    def sh(self, script: str) -> str:
        """What a shell inside prints."""
        done = self.run("sh", "-c", script)
        assert done.code == 0, done.output
        return done.output.strip()

    @contextmanager
    def start(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Starts it; what is left of it at the end is killed."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.storage.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def network(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Hosts on a network that reaches nothing else. Yields each name's address.

    Each is a network namespace `hvd-NAME`, and all are linked by a bridge in one more.
    """
    addresses = {name: f"10.78.0.{number}" for number, name in enumerate(names, start=1)}
    try:
        _ip("netns add hvd-bridge", "-n hvd-bridge link add br0 type bridge")
        _ip("-n hvd-bridge link set br0 up")
        for name, address in addresses.items():
            _ip(
                f"netns add hvd-{name}",
                f"-n hvd-bridge link add {name} type veth peer name eth0 netns hvd-{name}",
                f"-n hvd-bridge link set {name} master br0 up",
                f"-n hvd-{name} addr add {address}/24 dev eth0",
                f"-n hvd-{name} link set lo up",
                f"-n hvd-{name} link set eth0 up",
            )
        yield addresses
    finally:
        for name in ("bridge", *names):
            subprocess.run(["ip", "netns", "delete", f"hvd-{name}"], check=False)


def _ip(*commands: str) -> None:
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
