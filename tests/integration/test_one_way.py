"""The public functions, on a Ray cluster as in this process."""

import pytest
from actor_fixtures import QUICK

import joulelab
from joulelab.tracking.store import ResultStore

CLOCKS_MHZ = (1200, 990, 810)


@pytest.fixture
def labs(cluster, tmp_path, guard_socket, monkeypatch):
    """Return the two places to run in, with equal GPUs."""
    from joulelab_actors.laboratory import Laboratory

    monkeypatch.setenv("RAY_ADDRESS", cluster)

    def usual(name):
        return {
            "device": "simulated",
            "gpu": "h200_sxm",
            "num_gpus": 1,
            "store": tmp_path / name / "driver",
            "results_dir": tmp_path / name,
            "guard_socket": guard_socket,
            "procedure": QUICK,
            "study": "it",
        }

    here = joulelab.Lab(**usual("here"), progress=False)
    return here, Laboratory(**usual("ray"), tracking_uri="none")


def asked_for(folder):
    """Return every trial of a study, with what tells it from others."""
    return sorted(
        (m.study, m.trial, m.configuration.config_hash, m.repeat, m.sentinel)
        for m in ResultStore(folder).read()
    )


def test_a_sweep_plans_and_finds_the_same_on_a_cluster_as_in_this_process(labs):
    here, there = (
        joulelab.sweep("stream", clocks_mhz=CLOCKS_MHZ, repeats=2, lab=lab) for lab in labs
    )

    assert asked_for(there.folder) == asked_for(here.folder)
    assert there.best.point == here.best.point
    assert there.best.figures.energy_per_unit_j == pytest.approx(
        here.best.figures.energy_per_unit_j, rel=0.02
    )


def test_a_measurement_is_made_on_a_cluster(labs):
    _, ray = labs

    result = joulelab.measure("gemm", knobs={"n": 4096}, lab=ray)

    assert result.valid
    assert dict(result.measurement().configuration.knobs)["n"] == 4096


def test_a_search_on_a_cluster_knows_the_strategies_of_ray_tune_besides(labs):
    _, ray = labs

    found = joulelab.search(
        "gemm", {"sm_clock_mhz": list(CLOCKS_MHZ), "n": [2048, 4096]},
        strategy="tpe", budget=joulelab.Budget(num_trials=8), lab=ray,
    )  # fmt: skip

    assert found.words.startswith("8 trials, ")
    assert found.result.method.algorithm == "tpe"
    assert sorted(p.name for p in (found.folder / "tune").iterdir())
