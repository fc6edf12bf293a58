"""Around a launcher: signals, exit codes, restarts. `sh` stands for the launcher here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from hvd_gan.cluster.network import launcher_environment, with_nic

SUPERVISE = ("-m", "hvd_gan.launch")
RANK = """
import os, signal, sys, time
os.environ["HVD_GAN_EXIT_FILE"]
def stop(number, frame):
    open(os.environ["HVD_GAN_EXIT_FILE"], "w").write("75")
    sys.exit(0)
signal.signal(signal.SIGUSR1, stop)
print("ready", flush=True)
time.sleep(60)
"""


def supervised(*arguments: str, **environment: str) -> subprocess.Popen:
    environ = {key: value for key, value in os.environ.items() if key != "HVD_GAN_SUPERVISED"}
    return subprocess.Popen(
        [sys.executable, *SUPERVISE, *arguments],
        env={**environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rank_under_sh() -> subprocess.Popen:
    job = supervised("sh", "-c", 'OMPI_COMM_WORLD_RANK=0 "$0" -c "$1"; true', sys.executable, RANK)
    assert job.stdout.readline() == "ready\n"
    return job


@pytest.mark.parametrize("code", [0, 1, 3, 75])
def test_the_launchers_code_is_returned(code):
    job = supervised("sh", "-c", f"exit {code}")
    job.communicate(timeout=20)
    assert job.returncode == code


def test_what_rank_0_leaves_counts_unless_something_failed_after_it():
    left = 'printf 2 > "$HVD_GAN_EXIT_FILE"'
    for script, code in ((left, 2), (left.replace("2", "0", 1) + "; exit 7", 7)):
        job = supervised("sh", "-c", script)
        job.communicate(timeout=20)
        assert job.returncode == code


def test_a_launchers_0_counts_only_if_rank_0_says_so_once_it_has_started(tmp_path):
    outer = tmp_path / "outer"
    outer.touch()
    job = supervised("sh", "-c", 'printf started > "$HVD_GAN_EXIT_FILE"', HVD_GAN_EXIT_FILE=outer)
    job.communicate(timeout=20)
    assert job.returncode == 1
    # The supervisor around this one hears it too.
    assert outer.read_text() == "1"


def test_a_launcher_that_does_not_end_when_rank_0_has_failed_is_killed():
    job = supervised("sh", "-c", 'printf 1 > "$HVD_GAN_EXIT_FILE"; trap "" TERM; sleep 60; true')
    job.communicate(timeout=20)
    assert job.returncode == 1


def test_an_interface_that_is_not_there_is_refused():
    job = supervised("sh", "-c", "exit 7", HVD_GAN_NIC="eth77")
    _, said = job.communicate(timeout=20)
    assert job.returncode == 2
    assert "--nic eth77: host" in said and "has no such network interface with an address" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_lets_the_ranks_save(number):
    job = rank_under_sh()
    job.send_signal(number)
    _, said = job.communicate(timeout=20)
    assert job.returncode == 75
    assert "will stop after their step" in said


def test_a_rank_behind_a_wrapper_is_asked_too():
    wrapped = 'OMPI_COMM_WORLD_RANK=0 sh -c \'"$0" -c "$1"; exit $?\' "$0" "$1"; true'
    job = supervised("sh", "-c", wrapped, sys.executable, RANK)
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=20)
    assert job.returncode == 75


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        # Its ranks have started, on hosts that no signal reaches from here.
        ('printf started > "$HVD_GAN_EXIT_FILE"; echo ready; sleep 60', 130, "from the last check"),
        # A rank that does not listen yet.
        ("echo ready; OMPI_COMM_WORLD_RANK=0 sleep 60; true", 75, "stopped before the start"),
    ],
)
def test_75_says_that_nothing_is_lost(script, code, says):
    job = supervised("sh", "-c", script, "hvd_gan.train")
    assert job.stdout.readline() == "ready\n"
    time.sleep(0.3)
    job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=30)
    assert job.returncode == code and says in said


def test_a_signal_that_is_to_be_ignored_is():
    """As by nohup, when the connection ends from which a job was started."""
    launch = f"{sys.executable} -m hvd_gan.launch"
    script = f"trap '' HUP; exec {launch} sh -c 'echo ready; sleep 2; exit 3'"
    job = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGHUP)
    job.communicate(timeout=20)
    assert job.returncode == 3


def test_the_first_of_the_last_words_stands_below_all_that_the_launcher_says():
    say = 'echo "rank 1 failed" >> "$HVD_GAN_LAST_WORDS"; echo "fell over" >> "$HVD_GAN_LAST_WORDS"'
    job = supervised("sh", "-c", f"{say}; echo noise >&2; exit 1")
    _, said = job.communicate(timeout=20)
    assert said.splitlines() == ["noise", "hvd_gan: rank 1 failed"]


@pytest.mark.parametrize("code", [0, 137])
def test_a_job_that_has_started_fails_with_1_whatever_its_launcher_says(code):
    job = supervised("sh", "-c", f'printf started > "$HVD_GAN_EXIT_FILE"; exit {code}')
    job.communicate(timeout=20)
    assert job.returncode == 1


def test_a_launcher_that_is_not_there_is_told_in_one_line():
    job = supervised("no-such-mpirun", "-np", "2")
    _, said = job.communicate(timeout=20)
    assert job.returncode == 2
    assert said == "hvd_gan: no-such-mpirun cannot be started: No such file or directory\n"


def test_a_job_that_cannot_save_is_stopped_at_once():
    job = supervised("sh", "-c", "echo ready; exec sleep 60")
    assert job.stdout.readline() == "ready\n"
    started = time.monotonic()
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)
    assert job.returncode != 0 and time.monotonic() - started < 5


def test_a_second_ctrl_c_kills_the_ranks():
    deaf = RANK.replace("sys.exit(0)", "time.sleep(60)")
    job = supervised("sh", "-c", 'OMPI_COMM_WORLD_RANK=0 "$0" -c "$1"', sys.executable, deaf)
    assert job.stdout.readline() == "ready\n"
    children = psutil.Process(job.pid).children(recursive=True)
    job.send_signal(signal.SIGINT)
    time.sleep(0.5)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)
    assert job.returncode == 130
    assert not psutil.wait_procs(children, timeout=2)[1]


def test_the_launcher_does_not_outlive_its_supervisor():
    job = supervised("sh", "-c", "echo ready; exec sleep 60")
    assert job.stdout.readline() == "ready\n"
    children = psutil.Process(job.pid).children(recursive=True)
    job.kill()
    job.communicate()
    assert children and not psutil.wait_procs(children, timeout=5)[1]


def test_a_job_that_fails_is_started_again_and_one_that_is_refused_is_not(tmp_path):
    count = f"echo once >> {tmp_path}/starts; exit "
    for code, starts in ((1, 3), (137, 3), (2, 1), (75, 1), (0, 1)):
        (tmp_path / "starts").write_text("")
        job = supervised("--restarts", "2", "sh", "-c", count + str(code))
        _, said = job.communicate(timeout=30)
        assert job.returncode == code
        assert (tmp_path / "starts").read_text().count("once") == starts
        assert said.count("restart ") == starts - 1


def test_the_first_rank_that_dies_before_the_ranks_have_met_is_named():
    ranks = "HOROVOD_RANK=3 sleep 30 & HOROVOD_RANK=5 sleep 30 & echo $!; wait"
    job = supervised("sh", "-c", ranks + "; exit 137")
    victim = int(job.stdout.readline())
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.5)
    for child in psutil.Process(job.pid).children(recursive=True):
        if child.name() == "sleep":
            child.kill()
    _, said = job.communicate(timeout=20)
    assert job.returncode == 137
    assert "rank 5 on host" in said and "died before the ranks had met" in said


def test_a_rank_that_ends_by_itself_is_not_called_killed():
    rank = "sleep 0.5; HOROVOD_RANK=1 sh -c 'sleep 0.5; echo sorry; exit 3'; exit 1"
    job = supervised("sh", "-c", rank)
    _, said = job.communicate(timeout=20)
    assert job.returncode == 1
    assert "rank 1 on host" in said and "the reason stands above" in said
    assert "killed" not in said


def test_a_batch_script_is_no_rank_of_its_own():
    """Slurm gives a batch script a number too; the launcher in it inherits it."""
    job = supervised(
        "sh",
        "-c",
        'HOROVOD_RANK=0 "$0" -c "$1"; true',
        sys.executable,
        RANK,
        SLURM_PROCID="0",
    )
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=20)
    assert job.returncode == 75


@pytest.mark.slow
def test_an_elastic_driver_may_be_without_ranks_for_long():
    wait = "sleep 0.5; HOROVOD_RANK=0 sleep 1; sleep 10; exit 0"
    job = supervised("sh", "-c", wait, "--host-discovery-script", "x")
    job.communicate(timeout=40)
    assert job.returncode == 0


def test_one_variable_names_the_interface_for_every_layer():
    environment = launcher_environment({"HVD_GAN_NIC": "eth7", "NCCL_SOCKET_IFNAME": "mine"})
    assert environment["PRTE_MCA_oob_tcp_if_include"] == "eth7"
    assert environment["OMPI_MCA_btl_tcp_if_include"] == "eth7"
    assert environment["HOROVOD_GLOO_IFACE"] == "eth7"
    # What a person has set stays.
    assert environment["NCCL_SOCKET_IFNAME"] == "mine"
    assert "HOROVOD_GLOO_IFACE" not in launcher_environment({})
    assert launcher_environment({})["PRTE_MCA_oob_tcp_keepalive_time"] == "7"


def test_horovodrun_is_told_of_the_interface_by_its_flag():
    nic, started = {"HVD_GAN_NIC": "ib0"}, ["python", "-m", "horovod.runner.launch", "-np", "2"]
    told = [*started[:3], "--network-interfaces", "ib0", *started[3:]]
    assert with_nic(started, nic) == told
    assert with_nic(told, {"HVD_GAN_NIC": "eth9"}) == told
    assert with_nic(started, {}) == started
    assert with_nic(["/usr/bin/horovodrun", "-np", "2"], nic)[1] == "--network-interfaces"
    assert with_nic(["mpirun", "-np", "2"], nic) == ["mpirun", "-np", "2"]


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hvd_gan.train", "--nic", "nosuch7", "--run", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "--nic nosuch7" in last and "lo" in last and "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may rename a host, in a namespace")
def test_a_host_that_does_not_know_its_name_is_told_so(tmp_path):
    train = f"{sys.executable} -m hvd_gan.train --run {tmp_path}"
    done = subprocess.run(
        ["unshare", "--uts", "sh", "-c", f"hostname nobody-knows-me && exec {train}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "does not know its own name, nobody-knows-me" in done.stderr.strip().splitlines()[-1]
