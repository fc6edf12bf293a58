"""Containers of the `ssh` image as hosts of one job: by docker/compose.yaml, and by the MPIJob."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.images.containers import network
from tests.launch import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

FEW = (
    "stages.completion.steps=3",
    "stages.discriminator.steps=2",
    "stages.joint.steps=2",
    "evaluation.samples=0",
)


def test_compose_file_trains_on_two_containers(storage, folder, tmp_path):
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    volumes = {"keys": folder("keys"), "runs": folder("runs")}

    def mounts(service):
        pairs = (mount.split(":")[:2] for mount in services[service]["volumes"])
        return {inside: volumes[name] for name, inside in pairs}

    def start(service, **options):
        return storage.container(services[service]["image"], **options)

    with network(["node1", "node2"]) as addresses:
        hosts = _hosts_file(tmp_path, {addresses[name]: name for name in addresses})
        options = {
            name: {
                "hostname": services[name]["hostname"],
                "namespace": f"hvd-{name}",
                "volumes": {**mounts(name), "/etc/hosts": hosts},
            }
            for name in addresses
        }
        with (
            start("node2", **options["node2"]) as node2,
            node2.start(*services["node2"]["command"]),
            start("node1", **options["node1"]) as node1,
        ):
            _wait_for_ssh(node1, "node2")
            done = node1.run(*services["node1"]["command"], *FEW)
            commands = node1.run("ssh", "node2", "hvd-gan", "--help")
            check = storage.image("hvd-gan:ssh")["Healthcheck"]["Test"]
            if " doctor " in commands.output:
                health = node2.run(*check[1:])
                assert health.code == 0, health.output
        with start("node2", volumes=mounts("node2")) as again:
            made = (volumes["keys"] / "id_ed25519").read_bytes()
            shell, option, script = services["node2"]["command"]
            assert again.run(shell, option, script.replace("serve-ssh", "true")).code == 0
            assert (volumes["keys"] / "id_ed25519").read_bytes() == made
    assert done.code == 0, done.output
    assert "node1: rank 0" in done.output
    assert "node2: rank 1" in done.output
    assert (volumes["runs"] / "demo/checkpoints").is_dir()
    assert commands.code == 0, commands.output


def test_each_container_has_a_host_key_of_its_own(storage, folder, tmp_path):
    keys = folder("keys")
    (keys / "authorized_keys").touch()
    seen = set()
    with network(["one", "two"]) as addresses:
        for name, address in addresses.items():
            options = {"namespace": f"hvd-{name}", "volumes": {"/home/hvd/.ssh": keys}}
            with storage.container("hvd-gan:ssh", **options) as box, box.start():
                seen.add(_host_key(name, address))
    assert len(seen) == 2


def test_ssh_without_keys_says_what_to_mount(storage):
    with storage.container("hvd-gan:ssh") as box:
        done = box.run()
    assert done.code == 2
    assert "/home/hvd/.ssh/authorized_keys is not there" in done.output


def test_mpijob_trains_on_two_workers(storage, folder, tmp_path):
    """The pods' commands as they stand in the manifest, with what the operator adds to them:
    keys that root owns, a hostfile, and Open MPI 4's settings."""
    (job,) = yaml.safe_load_all((ROOT / "jobs/k8s/base/mpijob.yaml").read_text())
    pods = {
        role: spec["template"]["spec"]["containers"][0]
        for role, spec in job["spec"]["mpiReplicaSpecs"].items()
    }
    runs, secret = folder("runs"), folder("secret")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", secret / "id_rsa"],
        check=True,
    )
    shutil.copy(secret / "id_rsa.pub", secret / "authorized_keys")
    for path in secret.iterdir():
        path.chmod(0o644)

    with network(["launcher", "worker-0", "worker-1"]) as addresses:
        names = {name: f"hvd-gan-{name}.hvd-gan.default.svc" for name in addresses}
        hosts = _hosts_file(tmp_path, {addresses[name]: names[name] for name in addresses})
        hostfile = tmp_path / "hostfile"
        hostfile.write_text(f"{names['worker-0']} slots=1\n{names['worker-1']} slots=1\n")
        common = {job["spec"]["sshAuthMountPath"]: secret, "/etc/hosts": hosts}

        def pod(name, volumes, environment=()):
            return storage.container(
                pods["Launcher"]["image"],
                hostname=f"hvd-gan-{name}",
                namespace=f"hvd-{name}",
                volumes={**common, **volumes},
                environment=dict(environment),
            )

        by_operator = {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_set_default_slots": "1",
        }
        by_manifest = {one["name"]: one["value"] for one in pods["Launcher"]["env"]}
        with (
            pod("worker-0", {"/runs": runs}) as first,
            first.start(*pods["Worker"]["args"]),
            pod("worker-1", {"/runs": runs}) as second,
            second.start(*pods["Worker"]["args"]),
            pod(
                "launcher", {"/etc/mpi/hostfile": hostfile}, {**by_operator, **by_manifest}.items()
            ) as launcher,
        ):
            for name in ("worker-0", "worker-1"):
                _wait_for_ssh(launcher, names[name])
            done = launcher.run(*pods["Launcher"]["args"], *FEW)
    assert done.code == 0, done.output
    assert "worker-0: rank 0" in done.output
    assert "worker-1: rank 1" in done.output
    assert (runs / "demo/checkpoints").is_dir()


def _hosts_file(folder: Path, names: dict[str, str]) -> Path:
    path = folder / "hosts"
    lines = [f"{address} {name} {name.partition('.')[0]}" for address, name in names.items()]
    path.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    return path


def _wait_for_ssh(box, host: str) -> None:
    deadline = time.monotonic() + 60
    while (done := box.run("ssh", host, "true")).code != 0:
        assert time.monotonic() < deadline, done.output
        time.sleep(0.5)


def _host_key(name: str, address: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        scan = ["ssh-keyscan", "-p", "2222", "-t", "ed25519", address]
        done = subprocess.run(
            ["ip", "netns", "exec", f"hvd-{name}", *scan],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.stdout:
            return done.stdout.split()[-1]
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.5)
