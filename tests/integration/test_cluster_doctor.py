"""``joulelab doctor --cluster`` on three nodes of one machine."""

import json

import pytest
from fake_tools import FakeSmi

from joulelab.cli.main import main
from joulelab.devices.simulated import DriverStore, Fault
from joulelab_actors import cluster_doctor
from joulelab_actors.placement import alive_nodes, call_on


@pytest.fixture
def store(cluster, tmp_path):
    return DriverStore(tmp_path / "driver")


@pytest.fixture
def doctor(cluster, tmp_path, capsys):
    """Run the command; returns its exit code and what it says of each node."""

    def run(*words, results=tmp_path / "results"):
        code = main(["doctor", "--cluster", "--results-dir", str(results), "--json", *words])
        found = json.loads(capsys.readouterr().out)
        return code, [{each["what"]: each for each in checks} for checks in found.values()]

    return run


@pytest.fixture
def simulated(store):
    return "--device", "simulated", "--store", str(store.root)


def test_every_node_is_looked_at(doctor, store, simulated, tmp_path):
    store.create("h200_sxm", 0)

    code, nodes = doctor(*simulated)

    assert code == 0
    assert len(nodes) == 3
    for checks in nodes:
        assert {each["status"] for each in checks.values()} == {"ok"}, checks
        assert checks["GPUs"]["found"] == "1 GPU: NVIDIA H200 through simulated"
        assert checks["sensors"]["found"].startswith("activity, energy")
        assert str(tmp_path / "results") in checks["results"]["found"]
        ahead_s, _, u_s, _ = checks["system clock"]["found"].split()
        assert abs(float(ahead_s)) <= float(u_s) + 0.001  # one machine has one clock
    assert not (tmp_path / "results").exists()


def test_a_gpu_that_cannot_be_opened_fails_its_nodes(doctor, store, simulated):
    store.create("h200_sxm", 0)
    store.create("h200_sxm", 1).inject(Fault(kind="lost"))

    code, nodes = doctor(*simulated)

    assert code == 1
    assert {each["GPUs"]["status"] for each in nodes} == {"fail"}
    assert "SIM-h200_sxm-1" in nodes[0]["GPUs"]["found"]
    assert "fallen off the bus" in nodes[0]["GPUs"]["found"]


def test_gpus_of_several_products_are_for_sweeps_alone(doctor, store, simulated):
    store.create("h200_sxm", 0)
    store.create("v100_sxm2", 1)

    code, nodes = doctor(*simulated)

    assert code == 0
    assert nodes[0]["GPUs"]["status"] == "warn"
    assert "other studies take one, with --gpu-product" in nodes[0]["GPUs"]["advice"]


def test_a_cluster_without_a_gpu_fails(doctor):
    code, nodes = doctor("--device", "auto")

    assert code == 1
    assert {each["GPUs"]["status"] for each in nodes} == {"fail"}
    assert "nvml" in nodes[0]["GPUs"]["advice"]


def test_a_fallback_without_an_energy_counter_is_a_warning(doctor, node_tools):
    FakeSmi(node_tools)
    try:
        _, nodes = doctor("--device", "auto")
    finally:
        for path in node_tools.iterdir():
            path.unlink()

    found = nodes[0]["sensors"]
    assert found["status"] == "warn"
    assert "sampled power" in found["advice"]
    assert nodes[0]["GPUs"]["found"].endswith("through smi")


def cannot_be_found_there():
    """Be a function of a module that no node has."""


def test_a_node_that_fails_is_a_row_and_the_rest_are_looked_at(
    doctor, store, simulated, monkeypatch
):
    store.create("h200_sxm", 0)
    broken, *_ = alive_nodes()

    def call(node_id, function, arguments):
        if node_id == broken["NodeID"]:
            function, arguments = cannot_be_found_there, ()
        return call_on(node_id, function, arguments)

    monkeypatch.setattr(cluster_doctor, "call_on", call)

    code, nodes = doctor(*simulated)

    assert code == 1
    assert [list(each) for each in nodes].count(["GPUs"]) == 1
    assert "No module named" in nodes[0]["GPUs"]["found"]
    assert {each["GPUs"]["status"] for each in nodes[1:]} == {"ok"}


def test_the_table_says_what_to_do_once(cluster, store, simulated, tmp_path, capsys):
    store.create("h200_sxm", 0)
    store.create("v100_sxm2", 1)

    code = main(["doctor", "--cluster", "--results-dir", str(tmp_path), *simulated])

    out = capsys.readouterr().out
    assert code == 0
    assert "2 GPUs" in out
    assert " ".join(out.split()).count("a sweep measures each by itself") == 1


@pytest.mark.parametrize(
    ("words", "reason"), [(["--uuid", "GPU-a"], "--uuid"), (["--device", "nvlm"], "nvml")]
)
def test_a_wrong_request_is_refused(cluster, words, reason, capsys):
    assert main(["doctor", "--cluster", *words]) == 2
    assert reason in capsys.readouterr().err
