"""Trials that take two GPUs, on actors of a Ray cluster."""

from dataclasses import replace

import pytest
from actor_fixtures import QUICK
from mlflow import MlflowClient

import joulelab
from joulelab.guard import GuardClient

CLOCKS_MHZ = (1200, 900)

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")


@pytest.fixture
def lab(cluster, tmp_path, guard_socket, monkeypatch, store_uri):
    from joulelab_actors.laboratory import Laboratory

    monkeypatch.setenv("RAY_ADDRESS", cluster)
    return Laboratory(
        gpu="h100_sxm",
        num_gpus=4,
        gpus_per_trial=2,
        store=tmp_path / "driver",
        results_dir=tmp_path / "results",
        guard_socket=guard_socket,
        procedure=QUICK,
        tracking_uri=store_uri,
        study="pairs",
    )


def test_a_sweep_over_pairs_adds_up_their_boards_and_goes_on_where_it_ended(
    lab, guard_socket, store_uri
):
    knobs = {"model": "tiny", "tensor_parallel": 2}
    one = replace(lab, num_gpus=2)
    first = joulelab.sweep("llama", clocks_mhz=CLOCKS_MHZ, repeats=1, knobs=knobs, lab=one)
    before = {measurement.measurement_id for measurement in first.measurements}

    again = joulelab.sweep("llama", clocks_mhz=CLOCKS_MHZ, repeats=2, knobs=knobs, lab=lab)

    assert first.summary.complete
    assert again.summary.complete
    pairs = {tuple(b.device.uuid for b in m.boards) for m in again.measurements}
    assert {len(pair) for pair in pairs} == {2}
    assert len({uuid for pair in pairs for uuid in pair}) == 4
    for measurement in again.measurements:
        apart_j = [board.known_energy_j for board in measurement.boards]
        whole_j = sum(window.energy_j for window in measurement.windows)
        assert sum(apart_j) == pytest.approx(whole_j)
    assert before < {measurement.measurement_id for measurement in again.measurements}
    assert not GuardClient(guard_socket, start=False).status().leases
    client = MlflowClient(store_uri)
    [experiment] = [e for e in client.search_experiments() if e.name == "pairs"]
    runs = client.search_runs([experiment.experiment_id], "tags.trial != ''", max_results=100)
    assert len(runs) == len(again.measurements)
    assert all("gpu1.energy_per_unit_j" in run.data.metrics for run in runs)
