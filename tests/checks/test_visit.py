"""What ssh says becomes a finding with a cure."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from hvd_gan.checks.visit import Host, Unreachable, Visit, is_here

# An address of TEST-NET-3, which is nobody's.
AWAY = Host("203.0.113.7", 1)


def fake_ssh(folder: Path, monkeypatch, script: str) -> None:
    (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("said", "what", "cure"),
    [
        ("Host key verification failed.", "key is not known", "ssh-keyscan 203.0.113.7"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "has changed", "ssh-keygen -R"),
        ("root@a: Permission denied (publickey).", "without a password", "ssh-copy-id"),
        ("ssh: Could not resolve hostname a: Name or service not known", "name", "/etc/hosts"),
        ("ssh: connect to host a port 22: Connection refused", "no sshd", "start sshd"),
        ("ssh: connect to host a port 22: Connection timed out", "does not answer", "firewall"),
        ("ssh: connect to host a port 22: No route to host", "no network", "same network"),
        (
            "no such identity: /root/.ssh/id: No such file or directory\nPermission denied (x).",
            "without a password",
            "ssh-copy-id",
        ),
        ("kex_exchange_identification: something new", "something new (code 255)", "by hand"),
    ],
)
def test_each_failure_has_its_cure(said, what, cure, tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, f"echo '{said}' >&2; exit 255")
    with pytest.raises(Unreachable) as caught:
        Visit(AWAY)
    finding = caught.value.finding
    assert finding.severity == "error" and what in finding.detail and cure in finding.cure


@pytest.mark.parametrize(
    ("code", "said", "what"),
    [
        (127, "sh: 1: exec: /venv/bin/python: not found", "there is no"),
        (126, "sh: 1: exec: /venv/bin/python: Permission denied", "one may not run"),
    ],
)
def test_a_python_that_does_not_start_there_is_told(code, said, what, tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, f"echo '{said}' >&2; exit {code}")
    with pytest.raises(Unreachable) as caught:
        Visit(AWAY)
    finding = caught.value.finding
    assert finding.name == "python" and f"{what} {sys.executable}" in finding.detail
    assert "install at the same path" in finding.cure


@pytest.mark.parametrize(
    "greeting",
    ["welcome!\n", "[conda] base activated\n", "3 updates\n", "[1]\n{}\n7\n", "[", "{}", "7 new"],
)
def test_a_host_answers_though_its_shell_talks_first(greeting, tmp_path, monkeypatch):
    # The last argument is the command for the other host.
    talk = f"printf '%s' '{greeting}'; for last; do :; done; eval \"$last\""
    fake_ssh(tmp_path, monkeypatch, talk)
    with Visit(AWAY) as visit:
        assert visit.facts["host"] == socket.gethostname()
        assert abs(visit.clock_offset()) < 1
        port = visit.facts["port"]
        good, bad = visit.ask([["127.0.0.1", "127.0.0.1", port], ["127.0.0.1", "127.0.0.1", 1]])
        assert good == "" and "refused" in bad


def test_a_host_that_goes_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("hvd_gan.checks.visit.ANSWER_SECONDS", 1.0)
    fake_ssh(tmp_path, monkeypatch, "exec sleep 60")
    with pytest.raises(Unreachable):
        Visit(AWAY)


def test_this_machine_is_visited_without_ssh(tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, "exit 255")
    assert is_here("localhost") and not is_here(AWAY.name)
    with Visit(Host("localhost", 1)) as visit:
        assert visit.facts["host"] == socket.gethostname()
