"""What can be said of the Docker files without building an image."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from hvd_gan.config_files import load
from hvd_gan.train import parser
from tests.launch import ROOT

DOCKERFILE = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", " ")
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())


def _trainings() -> list[list[str]]:
    """The words after `hvd-gan train` in compose.yaml and in each command of the README."""
    readme = (ROOT / "docker/README.md").read_text().replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in readme.splitlines() if line[:4] == "    "]
    lines.append(COMPOSE["services"]["node1"]["command"])
    return [line[line.index("train") + 1 :] for line in lines if "train" in line]


@pytest.mark.parametrize("words", _trainings(), ids=" ".join)
def test_every_training_is_one_that_train_understands(words):
    options = parser().parse_intermixed_args(words)
    load(options.preset, [], options.overrides)


def test_trainings_were_found():
    assert len(_trainings()) == 5


def test_context_is_what_is_copied_and_no_more():
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = (word for word in line.split() if not word.startswith("--"))
        copied.update(source.rstrip("/") for source in sources)
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    assert "*" in ignore
    assert copied - {"hvd_gan/__init__.py"} == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_build_arguments_are_those_of_the_readme_and_of_install():
    declared = set(re.findall(r"^ARG (\w+)=", DOCKERFILE, re.MULTILINE))
    readme = (ROOT / "docker/README.md").read_text()
    assert declared == set(re.findall(r"^\| `(\w+)(?:=1)?` \|", readme, re.MULTILINE))
    install = (ROOT / "install.sh").read_text()
    assert declared - {"BASE"} <= set(re.findall(r"^#   (\w+)=", install, re.MULTILINE))


def test_host_keys_go_in_the_step_that_makes_them():
    (step,) = (line for line in DOCKERFILE.splitlines() if "openssh-server" in line)
    assert "rm -rf" in step
    assert "/etc/ssh/ssh_host_*" in step


def test_only_the_node_that_waits_has_a_health_check():
    before, ssh = DOCKERFILE.split("AS ssh\n")
    stage, after = ssh.split("\nFROM ", 1)
    assert "HEALTHCHECK" in stage
    assert "HEALTHCHECK" not in before + after


def test_compose_keeps_the_nodes_to_themselves():
    services = COMPOSE["services"]
    assert COMPOSE["networks"] == {"ranks": {"internal": True}}
    assert services["node1"]["networks"] == services["node2"]["networks"] == ["ranks"]
    assert not any("ports" in service for service in services.values())
    assert "keys:/home/hvd/.ssh:ro" in services["node1"]["volumes"]


def test_nothing_but_the_training_ends_by_itself():
    """`--exit-code-from` stops all services when the first one ends, with whatever code."""
    others = {name: service for name, service in COMPOSE["services"].items() if name != "node1"}
    assert list(others) == ["node2"]
    assert others["node2"]["command"][-1].endswith("exec serve-ssh")


@pytest.mark.parametrize(
    ("tool", "files"),
    [
        ("hadolint", ["docker/Dockerfile"]),
        ("shellcheck", ["docker/entrypoint.sh", "docker/serve-ssh.sh"]),
    ],
)
def test_linters_have_nothing_to_say(tool, files):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([tool, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
