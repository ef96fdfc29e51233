"""The manifest for Kubernetes: what KubeRay reads, and that it agrees with all else."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from script_settings import settings_of

from joulelab.cli import main as joulelab
from joulelab.guard.policy import read_policy
from joulelab.guard.settings import SYSTEM_SOCKET

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "cluster/Containerfile").read_text()
SCHEMA = yaml.safe_load((ROOT / "tests/kuberay_schema.yaml").read_text())
MANIFEST = list(yaml.safe_load_all((ROOT / "cluster/kuberay.yaml").read_text()))
PARTS = {part["kind"]: part for part in MANIFEST}
CONFIG = {part["metadata"]["name"]: part["data"] for part in MANIFEST if "data" in part}
CLUSTER = PARTS["RayCluster"]["spec"]
HEAD = CLUSTER["headGroupSpec"]["template"]["spec"]
[WORKER] = [group["template"]["spec"] for group in CLUSTER["workerGroupSpecs"]]
GUARD = PARTS["DaemonSet"]["spec"]["template"]["spec"]
PODS = {"head": HEAD, "worker": WORKER, "guard": GUARD}
# What each process has of its own: places, ports by job, and the token, which KubeRay hands out.
OWN = re.compile(r"RAY_(PORT|TMPDIR|ADDRESS|API_SERVER_ADDRESS|AUTH_\w+)$")


def validate(part):
    schema = SCHEMA | {"$ref": f"#/$defs/{part['kind']}"}
    jsonschema.Draft202012Validator(schema).validate(part)


def container(pod):
    [only] = PODS[pod]["containers"]
    return only


def mounts(pod):
    """Where a pod sees what: the sources of its volumes by where they are mounted."""
    volumes = {volume["name"]: volume for volume in PODS[pod]["volumes"]}
    return {
        mount["mountPath"]: {**volumes[mount["name"]], **mount}
        for mount in container(pod)["volumeMounts"]
    }


@pytest.mark.parametrize(
    "part",
    MANIFEST,
    ids=lambda part: f"{part['kind']}-{part['metadata']['name']}",
)
def test_the_manifest_says_what_kuberay_and_kubernetes_know(part):
    validate(part)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("RayCluster", ("spec", "authOption"), {"mode": "token"}),
        ("RayCluster", ("spec", "authOptions", "mode"), "Token"),
        ("RayCluster", ("spec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        ("RayJob", ("spec", "rayClusterSpec"), CLUSTER),
        ("RayJob", ("spec", "entryPoint"), "python"),
        ("DaemonSet", ("spec", "template", "spec", "hostPid"), True),
    ],
)
def test_the_schema_refuses_what_the_cluster_would_drop_or_refuse(kind, path, value):
    part = yaml.safe_load(yaml.safe_dump(PARTS[kind]))
    place = part
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value

    with pytest.raises(jsonschema.ValidationError):
        validate(part)


def test_guard_and_workers_meet_at_the_socket_that_every_study_looks_for():
    folder = str(SYSTEM_SOCKET.parent)
    at_guard, at_worker = (mounts(pod)[folder] for pod in ("guard", "worker"))

    assert at_guard["hostPath"]["path"] == at_worker["hostPath"]["path"] == folder
    assert at_worker["readOnly"]
    assert not at_guard.get("readOnly")
    assert folder not in mounts("head")


def test_the_guard_is_started_and_probed_by_commands_that_exist():
    guard = container("guard")
    command = joulelab._parse(guard["args"][1], guard["args"][2:])
    probe = shlex.split(guard["livenessProbe"]["exec"]["command"][-1])
    asked = joulelab._parse(probe[1], probe[2 : probe.index("||")])

    assert guard["args"][0] == probe[0] == "joulelab"
    assert (command.socket, command.status) == (SYSTEM_SOCKET, False)
    assert (asked.socket, asked.status) == (SYSTEM_SOCKET, True)
    assert f"groupadd --gid {guard['securityContext']['runAsGroup']} {command.group}" in IMAGE


def test_the_guards_policy_is_one_and_serves_the_workers(tmp_path):
    [path] = [word.partition("=")[2] for word in container("guard")["args"] if "--policy" in word]
    folder, _, name = path.rpartition("/")
    source = mounts("guard")[folder]["configMap"]["name"]
    (tmp_path / name).write_text(CONFIG[source][name])
    (tmp_path / name).chmod(0o644)

    [rule] = read_policy(tmp_path / name).allow

    assert all(f"groupadd --gid 10001 {group}" in IMAGE for group in rule.groups)
    assert WORKER["securityContext"]["runAsGroup"] == 10001


def test_only_the_guard_has_a_privilege():
    guard, confined = container("guard")["securityContext"], {"head", "worker"}

    assert guard["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert guard["runAsUser"] == 0
    for pod in confined:
        of_pod, of_container = PODS[pod]["securityContext"], container(pod)["securityContext"]
        assert of_pod["runAsNonRoot"]
        assert f"--uid {of_pod['runAsUser']} " in IMAGE
        assert of_pod["runAsGroup"] == guard["runAsGroup"]  # whom the guard serves
        assert of_container["capabilities"] == {"drop": ["ALL"]}
        assert not of_container["allowPrivilegeEscalation"]
        assert not PODS[pod].keys() & {"hostPID", "hostNetwork", "hostIPC"}
        assert [m for m in mounts(pod).values() if "hostPath" in m and not m.get("readOnly")] == []


def test_the_guard_takes_no_gpu_and_workers_do():
    assert "nvidia.com/gpu" not in str(container("guard")["resources"])
    assert container("worker")["resources"]["limits"]["nvidia.com/gpu"] > 0
    assert "nvidia.com/gpu" not in str(container("head")["resources"])


def test_head_and_workers_have_the_environment_of_every_other_cluster():
    said = subprocess.run(
        ["bash", "-c", ". cluster/env.sh; env"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "VENV": sys.prefix},
        capture_output=True,
        text=True,
        check=True,
    )
    exported = dict(line.partition("=")[::2] for line in said.stdout.splitlines())

    assert CONFIG["joulelab-ray"] == {
        name: value
        for name, value in exported.items()
        if re.match(r"RAY_|CUDA_|\w+_METRIC_PORT", name) and not OWN.match(name)
    }
    for pod in ("head", "worker"):
        assert container(pod)["envFrom"] == [{"configMapRef": {"name": "joulelab-ray"}}]


def test_a_token_is_asked_for_of_the_ray_that_the_image_installs():
    pinned = re.search(r"^ray==(\S+)$", (ROOT / "constraints-common.txt").read_text(), re.M)[1]

    assert CLUSTER["authOptions"] == {"mode": "token"}
    assert CLUSTER["rayVersion"] == pinned
    assert tuple(map(int, pinned.split("."))) >= (2, 52)  # the first that KubeRay takes with it


def test_the_job_runs_a_study_on_the_cluster_with_results_that_all_nodes_see():
    job = PARTS["RayJob"]["spec"]
    python, *words = shlex.split(job["entrypoint"])
    settings = settings_of(words)
    claim = {"claimName": PARTS["PersistentVolumeClaim"]["metadata"]["name"]}

    assert python == "python"
    assert "WORKDIR /opt/joulelab" in IMAGE
    assert job["clusterSelector"] == {"ray.io/cluster": PARTS["RayCluster"]["metadata"]["name"]}
    assert PARTS["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in ("head", "worker"):
        assert mounts(pod)[str(settings.lab.results_dir)]["persistentVolumeClaim"] == claim
    assert settings.lab.tracking_uri == "none"  # by default it is an SQLite file among the results
    assert settings.lab.device == "nvml"


def test_containers_run_one_image_and_mount_what_their_pods_have():
    assert len({container(pod)["image"] for pod in PODS}) == 1
    for pod in PODS:
        mounts(pod)  # a volume that is not there is a KeyError
    ports = {port["name"]: port["containerPort"] for port in container("head")["ports"]}
    assert ports == {"gcs-server": 6379, "dashboard": 8265, "client": 10001}  # Ray's own


def test_the_image_takes_versions_from_files_that_are_there():
    for name in re.findall(r"constraints[\w-]*\.txt", IMAGE):
        assert (ROOT / name).is_file()
    assert re.search(r'-c "\$CONSTRAINTS" torch', IMAGE)
