"""The real Dockerfile, built from a clean checkout, and what its images do.

They are built once for all tests here, without caches: some minutes, most of them Horovod's.
HVD_GAN_IMAGES=FOLDER keeps them, and the next time builds only what has changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.cluster.containers import Storage, network, why_not
from tests.launch import ROOT

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

FEW = (
    "stages.completion.steps=3",
    "stages.discriminator.steps=2",
    "stages.joint.steps=2",
    "evaluation.samples=0",
)
TRAIN = ("train", "--preset", "demo")
COMPILERS = "cc c++ gcc g++ clang cpp as ld make cmake nvcc mpicc mpicxx cython"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What git has of this commit, as someone checks it out who lets nobody else read it."""
    folder = tmp_path_factory.mktemp("checkout")
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "--output", archive, "HEAD"], cwd=ROOT, check=True)
    subprocess.run(["tar", "--extract", "--file", archive], cwd=folder, check=True)
    subprocess.run(["chmod", "-R", "go-rwx", "."], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def storage(checkout):
    """A storage with both images, hvd-gan and hvd-gan:ssh."""
    kept = os.environ.get("HVD_GAN_IMAGES")
    # Not in /tmp, which may be memory: it grows to 10 GB.
    folder = Path(kept or tempfile.mkdtemp(prefix="hvd_gan-", dir="/var/tmp"))
    storage = Storage(folder)
    try:
        if not (folder / "images").exists():
            storage.make_base()
        storage.build(checkout, "hvd-gan")
        storage.build(checkout, "hvd-gan:ssh", target="ssh")
        yield storage
    finally:
        if not kept:
            storage.buildah("rm", "--all")
            storage.buildah("rmi", "--all", "--force")
            shutil.rmtree(folder)


@pytest.fixture
def box(storage):
    with storage.container("hvd-gan") as box:
        yield box


@pytest.fixture
def folder(tmp_path):
    """Makes folders that a container's user may write."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        os.chown(path, 1000, 1000)
        return path

    # Others have to get through to it.
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o711)
    return make


@pytest.mark.parametrize(
    "launcher",
    [
        (),
        ("horovodrun", "--gloo", "-np", "2", "hvd-gan"),
        ("mpirun", "-np", "2", "hvd-gan"),
    ],
    ids=["alone", "horovodrun", "mpirun"],
)
def test_trains_as_nobody_in_particular(storage, folder, launcher):
    runs = folder("runs")
    with storage.container("hvd-gan", volumes={"/workspace/runs": runs}) as box:
        done = box.run(*launcher, *TRAIN, *FEW)
    assert done.code == 0, done.output
    assert (runs / "demo/checkpoints").is_dir()
    assert {path.stat().st_uid for path in runs.rglob("*")} == {1000}


def test_trains_as_any_user_without_a_network(storage):
    with (
        network(["alone"]),
        storage.container("hvd-gan", user="12345:12345", namespace="hvd-alone") as box,
    ):
        done = box.run("horovodrun", "-np", "2", "hvd-gan", *TRAIN, *FEW)
        assert done.code == 0, done.output
        assert box.sh("stat --format %u runs/demo/log.txt") == "12345"


def test_checks_itself(box):
    commands = box.run("--help").output
    check = ("doctor", "--quick") if " doctor " in commands else ("audit", *TRAIN[1:])
    done = box.run(*check)
    # Doctor's 1 is a warning: a test machine may lack memory, say.
    assert done.code in ((0, 1) if check[0] == "doctor" else (0,)), done.output


def test_exit_codes_are_those_of_the_command(box):
    assert box.run().code == 0
    assert box.run("bash", "-c", "exit 75").code == 75
    mistaken = box.run("trian")
    assert mistaken.code == 2
    assert "no command 'trian'" in mistaken.output


@pytest.mark.parametrize(
    "launcher", [(), ("mpirun", "-np", "2", "hvd-gan")], ids=["alone", "mpirun"]
)
def test_stopping_the_container_stops_every_rank(box, launcher):
    with box.start(*launcher, *TRAIN, *FEW[1:], "stages.completion.steps=100000") as process:
        line = process.stdout.readline()
        while line and "joint" not in line:
            line = process.stdout.readline()
        inside = psutil.Process(process.pid).children(recursive=True)
        ranks = [one for one in inside if "train" in one.cmdline()]
        (init,) = (one for one in inside if one.name() == "tini")
        time.sleep(2)
        init.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert ranks
    assert not [rank for rank in ranks if rank.is_running()]


def test_nothing_that_builds_is_left(box):
    assert box.sh(f"for tool in {COMPILERS}; do command -v $tool; done; true") == ""
    assert box.sh("find / -xdev -name .cache -o -xdev -name '*.whl' -o -xdev -name mpi.h") == ""
    assert box.sh("id -u") == "1000"
    assert box.sh("find /opt /usr -writable -not -type l | head") == ""


@pytest.mark.parametrize("tag", ["hvd-gan", "hvd-gan:ssh"])
def test_no_layer_holds_a_private_key(storage, tmp_path, tag):
    storage.buildah("push", "--quiet", "--disable-compression", tag, f"dir:{tmp_path}/layers")
    seen = 0
    for layer in (tmp_path / "layers").iterdir():
        if not tarfile.is_tarfile(layer):
            continue
        with tarfile.open(layer) as files:
            for entry in files:
                seen += 1
                assert "ssh_host_" not in entry.name
                if entry.isfile() and 100 < entry.size < 20_000:
                    first = files.extractfile(entry).readline(80)
                    assert not (first.startswith(b"-----BEGIN") and b"PRIVATE KEY" in first), entry
    assert seen > 10_000
    shutil.rmtree(tmp_path / "layers")


def test_a_change_of_code_builds_no_dependency_again(storage, checkout):
    code = checkout / "hvd_gan/cli.py"
    before = code.read_text()
    try:
        code.write_text(before.replace("usage: hvd-gan", "changed: hvd-gan"))
        log = storage.build(checkout, "hvd-gan:changed")
    finally:
        code.write_text(before)
    assert "Installing TensorFlow" not in log
    with storage.container("hvd-gan:changed") as box:
        assert "changed: hvd-gan" in box.run().output
    # Both share all but the last layers, the one with the environment among them.
    assert storage.layers("hvd-gan:changed")[:-1] == storage.layers("hvd-gan")[:-1]
    assert storage.layers("hvd-gan:ssh")[:3] == storage.layers("hvd-gan")[:3]


def test_compose_file_trains_on_two_containers(storage, folder, tmp_path):
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    volumes = {"keys": folder("keys"), "runs": folder("runs")}

    def mounts(service):
        pairs = (mount.split(":")[:2] for mount in services[service]["volumes"])
        return {inside: volumes[name] for name, inside in pairs}

    def start(service, **options):
        return storage.container(services[service]["image"], **options)

    with start("keys", volumes=mounts("keys")) as keys:
        assert keys.run(*services["keys"]["command"]).code == 0
        made = (volumes["keys"] / "id_ed25519").read_bytes()
        assert keys.run(*services["keys"]["command"]).code == 0
        assert (volumes["keys"] / "id_ed25519").read_bytes() == made

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
            node2.start(),
            start("node1", **options["node1"]) as node1,
        ):
            _wait_for_ssh(node1, "node2")
            done = node1.run(*services["node1"]["command"], *FEW)
            health = node1.run("ssh", "node2", "hvd-gan", "--help")
    assert done.code == 0, done.output
    assert "node1: rank 0" in done.output
    assert "node2: rank 1" in done.output
    assert (volumes["runs"] / "demo/checkpoints").is_dir()
    assert health.code == 0, health.output


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
