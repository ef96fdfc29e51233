"""What a node's facts mean for a study, and what a node finds out of itself."""

import os
from dataclasses import replace

import pytest

from joulelab.devices.simulated import DriverStore
from joulelab_actors.cluster_doctor import (
    Skew,
    clock_verdict,
    folder_verdict,
    gpu_verdict,
    guard_verdict,
    sensor_verdict,
    skew_verdict,
    version_verdict,
)
from joulelab_actors.node_facts import (
    FolderFacts,
    GpuFacts,
    GuardFacts,
    NodeFacts,
    facts_of_node,
    versions_here,
)

H200 = GpuFacts(
    uuid="GPU-a",
    backend="nvml",
    is_hardware=True,
    name="NVIDIA H200",
    driver_version="570.10",
    reads=("power", "state", "energy", "samples"),
    lacks=("memory power",),
    can_set_clocks=True,
)
FOLDER = FolderFacts(
    path="/shared/results", kind="nfs4", free_b=10**12, has_locks=True, sees_mark=True
)
OURS = {"joulelab": "0.3", "code": "abc", "Python": "3.11.7", "torch": "2.9.0", "ray": "2.49.0"}
NODE = NodeFacts(
    hostname="node-1",
    gpus=(H200,),
    gpu_trouble="",
    guard=GuardFacts(),
    folder=FOLDER,
    versions=OURS,
)


def node(**changes):
    return replace(NODE, gpus=(replace(H200, **changes),))


@pytest.mark.parametrize(
    ("facts", "products", "status"),
    [
        (NODE, ["NVIDIA H200"], "ok"),
        (NODE, ["NVIDIA H100", "NVIDIA H200"], "warn"),
        (replace(NODE, gpus=(), gpu_trouble="no driver."), ["NVIDIA H200"], "warn"),
        (replace(NODE, gpus=(), gpu_trouble="no driver."), [], "fail"),
        (node(trouble="it has fallen off the bus"), ["NVIDIA H200"], "fail"),
        (node(owed="pid 7 set it"), ["NVIDIA H200"], "fail"),
    ],
)
def test_gpus(facts, products, status):
    verdict = gpu_verdict(facts, products)

    assert verdict[0] == status
    assert bool(verdict[2]) == (status != "ok")


@pytest.mark.parametrize(
    ("lacks", "status"),
    [(("memory power",), "ok"), (("energy",), "warn"), (("power",), "fail"), (("state",), "fail")],
)
def test_sensors(lacks, status):
    assert sensor_verdict(node(lacks=lacks))[0] == status


@pytest.mark.parametrize(
    ("can_set", "is_root", "status"),
    [(True, False, "ok"), (False, True, "ok"), (False, False, "warn"), (None, False, "warn")],
)
def test_clocks_may_be_set_by_the_process_or_through_the_guard(can_set, is_root, status):
    facts = replace(node(can_set_clocks=can_set), guard=GuardFacts(is_root=is_root))

    assert clock_verdict(facts)[0] == status


@pytest.mark.parametrize(
    ("guard", "status", "says"),
    [
        (GuardFacts(), "ok", "no SLURM job ends it"),
        (GuardFacts(pid=7, outlives_job=True), "ok", "guard 7 answers; outlives the job"),
        (GuardFacts(pid=7, outlives_job=False), "warn", "ends with the job"),
        (GuardFacts(trouble="it does not answer"), "fail", "does not answer"),
    ],
)
def test_guards(guard, status, says):
    found = guard_verdict(guard)

    assert found[0] == status
    assert says in found[1]


@pytest.mark.parametrize(
    ("changes", "drivers", "status"),
    [
        ({}, ["570.10"], "ok"),
        ({"code": "def"}, ["570.10"], "fail"),
        ({"joulelab": "0.2"}, ["570.10"], "fail"),
        ({"torch": None}, ["570.10"], "fail"),
        ({"torch": "2.8.0"}, ["570.10"], "warn"),
        ({"Python": "3.12.1"}, ["570.10"], "warn"),
        ({}, ["535.1", "570.10"], "warn"),
    ],
)
def test_versions_are_those_of_where_studies_start(changes, drivers, status):
    facts = replace(NODE, versions=OURS | changes)

    assert version_verdict(facts, OURS, drivers)[0] == status


def test_a_node_without_a_real_gpu_needs_no_pytorch():
    lacking = OURS | {"torch": None}
    facts = replace(node(is_hardware=False), versions=lacking)

    assert version_verdict(facts, lacking, [])[0] == "ok"


@pytest.mark.parametrize(
    ("ahead_s", "u_s", "status"),
    [(0.4, 0.01, "ok"), (-1.5, 0.01, "warn"), (1.5, 0.6, "ok"), (3.0, 0.6, "warn")],
)
def test_a_clock_is_off_only_beyond_what_the_question_took(ahead_s, u_s, status):
    assert skew_verdict(Skew(ahead_s=ahead_s, u_s=u_s))[0] == status


def test_a_clock_that_nobody_told_is_not_well():
    assert skew_verdict(None)[0] == "warn"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "ok"),
        ({"sees_mark": False}, "fail"),
        ({"trouble": "read-only"}, "fail"),
        ({"free_b": 10**7}, "fail"),
        ({"free_b": 10**9}, "warn"),
        ({"has_locks": False}, "warn"),
    ],
)
def test_results_folders(changes, status):
    found = folder_verdict(replace(FOLDER, **changes))

    assert found[0] == status
    assert bool(found[2]) == (status != "ok")


def test_a_node_finds_out_about_itself(tmp_path):
    DriverStore(tmp_path / "driver").create("h200_sxm", 0)
    (tmp_path / "mark").touch()

    found = facts_of_node("simulated", str(tmp_path / "driver"), tmp_path, "mark")
    elsewhere = facts_of_node("simulated", str(tmp_path / "driver"), tmp_path / "other", "mark")

    (gpu,) = found.gpus
    assert (gpu.name, gpu.trouble, gpu.owed, gpu.is_hardware) == ("NVIDIA H200", "", "", False)
    assert {"power", "state", "energy", "samples"} <= set(gpu.reads)
    assert set(gpu.reads).isdisjoint(gpu.lacks)
    assert found.versions == versions_here()
    assert (found.folder.sees_mark, found.folder.has_locks) == (True, True)
    assert found.folder.kind != ""
    assert found.folder.free_b == pytest.approx(
        os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize, rel=0.05
    )
    assert (elsewhere.folder.sees_mark, (tmp_path / "other").exists()) == (False, False)


def test_a_folder_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").touch()

    found = facts_of_node("simulated", str(tmp_path / "driver"), tmp_path / "file", "mark")

    assert "must be a folder" in found.folder.trouble
