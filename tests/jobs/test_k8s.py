"""The MPIJob fits the operator's schema, and what it says fits the image and the command."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from hvd_gan.config_files import load
from hvd_gan.train import parser
from tests.launch import ROOT

K8S = ROOT / "jobs/k8s"
SCHEMA = yaml.safe_load(Path(__file__).with_name("mpijob-v2beta1.yaml").read_text())
LAUNCH = ("mpirun", "--bind-to", "none", "hvd-gan", "train")


def _built(folder: str) -> list[dict]:
    """What kustomize makes of a folder."""
    for command in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, K8S / folder], capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()
            return list(yaml.safe_load_all(done.stdout))
    pytest.skip("neither kustomize nor kubectl is installed")


def _written(folder: str) -> list[dict]:
    """The resources of a folder that changes none of them."""
    kustomization = yaml.safe_load((K8S / folder / "kustomization.yaml").read_text())
    assert set(kustomization) == {"apiVersion", "kind", "resources"}
    texts = [(K8S / folder / name).read_text() for name in kustomization["resources"]]
    return [resource for text in texts for resource in yaml.safe_load_all(text)]


@pytest.fixture(params=["base", "overlays/gpu"])
def resources(request):
    return _written(request.param) if request.param == "base" else _built(request.param)


@pytest.fixture
def job(resources):
    (found,) = (resource for resource in resources if resource["kind"] == "MPIJob")
    return found


def _pod(job: dict, role: str) -> dict:
    return job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]


def _container(job: dict, role: str) -> dict:
    (container,) = _pod(job, role)["containers"]
    return container


def _bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([MG]i)", quantity).groups()
    return int(number) << {"Mi": 20, "Gi": 30}[unit]


def test_manifest_fits_the_schema(job):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(job, SCHEMA, jsonschema.Draft202012Validator)


WORKER = ("spec", "mpiReplicaSpecs", "Worker")
LAUNCHER = ("spec", "mpiReplicaSpecs", "Launcher")
CONTAINER = (*WORKER, "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "kubeflow.org/v1"),
        (("spec", "slotsPerWorker"), "1"),
        (("spec", "slotPerWorker"), 1),
        (("spec", "mpiReplicaSpecs", "Workers"), {}),
        (("spec", "mpiReplicaSpecs"), {}),
        (("spec", "mpiImplementation"), "Open MPI"),
        (("spec", "runPolicy", "cleanPodPolicy"), "running"),
        ((*LAUNCHER, "replicas"), 2),
        ((*WORKER, "replicas"), "two"),
        ((*WORKER, "restartPolicy"), "Always"),
        ((*WORKER, "template", "spec", "containers"), None),
        ((*CONTAINER, "args"), "serve-ssh"),
        ((*CONTAINER, "ports", 0, "containerPort"), "2222"),
        ((*CONTAINER, "env"), {"NAME": "value"}),
        ((*CONTAINER, "resources", "limits", "memory"), "8GB"),
        ((*CONTAINER, "securityContext", "runAsUser"), "1000"),
        ((*CONTAINER, "volumeMounts", 0), {"name": "runs", "path": "/runs"}),
    ],
)
def test_schema_refuses_a_mistake(path, value):
    (job,) = (copy.deepcopy(one) for one in _written("base") if one["kind"] == "MPIJob")
    place = job
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, SCHEMA, jsonschema.Draft202012Validator)


def test_command_is_one_that_train_understands(job):
    words = _container(job, "Launcher")["args"]
    assert tuple(words[: len(LAUNCH)]) == LAUNCH
    options = parser().parse_intermixed_args(words[len(LAUNCH) :])
    settings, _ = load(options.preset, [], options.overrides)
    ranks = job["spec"]["slotsPerWorker"] * job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert settings.batch % ranks == 0
    mounts = {mount["mountPath"]: mount for mount in _container(job, "Worker")["volumeMounts"]}
    assert not mounts[str(options.run.parent)].get("readOnly")
    assert options.data is None or str(options.data) in mounts


def test_volumes_are_those_that_are_mounted_and_claimed(job, resources):
    worker = _pod(job, "Worker")
    volumes = {volume["name"]: volume for volume in worker["volumes"]}
    mounts = {
        mount["mountPath"]: mount["name"] for mount in worker["containers"][0]["volumeMounts"]
    }
    assert set(mounts.values()) == set(volumes)
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes.values()
        if "persistentVolumeClaim" in volume
    }
    made = [one for one in resources if one["kind"] == "PersistentVolumeClaim"]
    assert claims == {claim["metadata"]["name"] for claim in made}
    # Workers on several nodes mount one volume.
    assert all(claim["spec"]["accessModes"] == ["ReadWriteMany"] for claim in made)
    shm = volumes[mounts["/dev/shm"]]["emptyDir"]
    memory = worker["containers"][0]["resources"]["limits"]["memory"]
    assert shm["medium"] == "Memory"
    assert _bytes(shm["sizeLimit"]) < _bytes(memory) / 2


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_pods_meet_the_restricted_security_standard(job, role):
    context = _pod(job, role)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["fsGroup"] == 1000
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert _container(job, role)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_worker_is_what_the_image_serves(job):
    sshd = (ROOT / "docker/sshd_config").read_text()
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    worker = _container(job, "Worker")
    assert worker["ports"] == [{"name": "ssh", "containerPort": 2222}]
    assert re.search("^Port 2222$", sshd, re.MULTILINE)
    assert re.search(f"/usr/local/bin/{worker['args'][0]}$", dockerfile, re.MULTILINE)
    home = re.search(r"--uid 1000 .*--home-dir (\S+)", dockerfile)[1]
    assert job["spec"]["sshAuthMountPath"] == f"{home}/.ssh"


def test_gpu_overlay_gives_each_rank_a_gpu():
    (job,) = (one for one in _built("overlays/gpu") if one["kind"] == "MPIJob")
    limits = _container(job, "Worker")["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == job["spec"]["slotsPerWorker"]
    assert "nvidia.com/gpu" not in _container(job, "Launcher")["resources"]["limits"]
    assert {_container(job, role)["image"] for role in ("Launcher", "Worker")} == {
        "hvd-gan:gpu-ssh"
    }
    # The base's other parts are still there.
    assert _container(job, "Launcher")["env"] and _pod(job, "Worker")["volumes"]
