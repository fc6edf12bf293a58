"""`doctor --hosts` on real hosts with sshd, and with what goes wrong between them."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from tests.launch import BIN, ROOT, environment

pytestmark = pytest.mark.cluster


def doctor(host, hosts: str, code: int, **variables: str) -> dict[tuple[str | None, str], dict]:
    """Doctor, started on one host; its findings by host and name."""
    flags = ("-m", "hvd_gan.doctor", "--json", "--hosts", hosts)
    done = host.run(
        sys.executable,
        *flags,
        cwd=ROOT,
        env={**environment(), "PYTHONPATH": str(ROOT), **variables},
        timeout=200,
    )
    start = done.stdout.index("[\n")
    found = json.loads(done.stdout[start:])
    assert done.returncode == code, done.stdout
    return {(finding["host"], finding["name"]): finding for finding in found}


def test_hosts_that_are_well_are_told_the_nic_that_reaches_all(three_hosts):
    one, two, _ = three_hosts
    # On two of them, with the address that it has everywhere.
    for host in (one, two):
        bridge = "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0"
        host.run("sh", "-ec", f"{bridge}; ip link set docker0 up", check=True)
    found = doctor(one, "hv1:1,hv2:1,hv3:1", 0)
    for name in ("ssh", "python", "hvd_gan", "slots", "clock"):
        assert {found[f"hv{number}", name]["severity"] for number in (1, 2, 3)} == {"ok"}
    assert ("hv1", "mpirun") not in found
    assert found["hv2", "mpirun"]["severity"] == found["hv3", "mpirun"]["severity"] == "ok"
    network = found[None, "network"]
    assert network["severity"] == "ok"
    assert "use --nic eth0" in network["detail"]
    assert "docker0 (containers' bridge)" in network["detail"]
    addresses = [row["address"] for row in network["rows"]]
    assert addresses == ["10.77.0.1/24", "10.77.0.2/24", "10.77.0.3/24"]


def test_each_host_that_cannot_be_used_says_why(three_hosts):
    one, two, three = three_hosts
    three.cut()
    two.run("mount", "--bind", "/dev/null", "/etc/ssh/user_key.pub", check=True)
    found = doctor(one, "hv1:1,hv2:1,hv3:1,nowhere:1,hv1.example:1", 2)
    assert "without a password" in found["hv2", "ssh"]["detail"]
    assert found["hv2", "ssh"]["cure"].startswith("ssh-copy-id hv2")
    # Which of the two depends on whether the switch or ssh gives up first.
    assert found["hv3", "ssh"]["detail"] in ("it does not answer", "no network leads to it")
    assert "is it up" in found["hv3", "ssh"]["cure"]
    assert "its name is not known here" in found["nowhere", "ssh"]["detail"]
    assert found["hv1", "ssh"]["severity"] == "ok"


def test_hosts_with_other_software_are_named(three_hosts, tmp_path):
    one, two, three = three_hosts
    shutil.copytree(ROOT / "hvd_gan", tmp_path / "hvd_gan")
    (tmp_path / "hvd_gan" / "cli.py").write_text("# another\n")
    package = str(ROOT / "hvd_gan")
    two.run("mount", "--bind", str(tmp_path / "hvd_gan"), package, check=True)
    three.private(BIN)
    found = doctor(one, "hv1:1,hv2:9999,hv3:1", 2)
    assert "has another cli.py than" in found["hv2", "hvd_gan"]["detail"]
    assert found["hv2", "slots"]["severity"] == "warning"
    assert f"there is no {sys.executable}" in found["hv3", "python"]["detail"]
    assert "share" in found["hv3", "python"]["cure"]
    two.private(ROOT / "hvd_gan")
    found = doctor(one, "hv1:1,hv2:1", 2)
    assert "cannot be imported" in found["hv2", "hvd_gan"]["detail"]


def test_a_pair_that_cannot_connect_is_named(three_hosts):
    one, _, three = three_hosts
    three.run("ip", "route", "add", "unreachable", "10.77.0.2/32", check=True)
    network = doctor(one, "hv1:1,hv2:1,hv3:1", 2)[None, "network"]
    assert network["severity"] == "error" and "firewall" in network["cure"]
    assert "hv2 does not reach hv3" in network["detail"]


def test_one_network_under_two_names_is_told_for_each_host(two_hosts):
    one, two = two_hosts
    rename = "ip link set eth0 down; ip link set eth0 name ens3; ip link set ens3 up"
    two.run("sh", "-ec", rename, check=True)
    network = doctor(one, "hv1:1,hv2:1", 0)[None, "network"]
    assert "set HVD_GAN_NIC to eth0 on hv1, ens3 on hv2" in network["detail"]


def test_a_clock_that_is_wrong_is_found(two_hosts, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "true = time.time\n"
        "if socket.gethostname() == 'hv2':\n"
        "    time.time = lambda: true() + 100\n"
    )
    found = doctor(two_hosts[0], "hv1:1,hv2:1", 1, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert "100.0" in found["hv2", "clock"]["detail"] and "NTP" in found["hv2", "clock"]["cure"]
    assert found["hv1", "clock"]["severity"] == "ok"


def test_a_host_whose_mpi_cannot_be_started_is_named(two_hosts):
    one, two = two_hosts
    for daemon in BIN.glob("*prte*"):
        two.run("mount", "--bind", "/dev/null", str(daemon), check=True)
    finding = doctor(one, "hv1:1,hv2:1", 1)["hv2", "mpirun"]
    assert "cannot start its daemon" in finding["detail"] and "--gloo" in finding["cure"]


@pytest.mark.slow
def test_ranks_on_two_hosts_are_compared(two_hosts):
    ranks = ("--gloo", "-np", "2", "-H", "hv1:1,hv2:1", "--network-interfaces", "eth0")
    command = (sys.executable, "-m", "hvd_gan.doctor", "--json", "--quick")
    settings = {**environment(), "PYTHONPATH": str(ROOT)}
    done = two_hosts[0].run(
        str(BIN / "horovodrun"), *ranks, *command, cwd=ROOT, env=settings, timeout=200
    )
    lines = done.stdout.splitlines()
    tagged = [line.partition("<stdout>:")[2] for line in lines if "<stdout>:" in line]
    found = {finding["name"]: finding for finding in json.loads("\n".join(tagged))}
    assert [row["host"] for row in found["ranks"]["rows"]] == ["hv1", "hv2"]
    assert found["clocks"]["severity"] == found["code"]["severity"] == "ok"
