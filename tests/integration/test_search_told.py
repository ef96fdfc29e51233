"""A whole search from its script: what it prints, what it leaves, and what MLflow shows of it."""

import importlib.util
import sys
from pathlib import Path

import pytest
from actor_fixtures import QUICK

from joulelab.study.budget import Budget
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.store import ResultStore
from joulelab.workloads.launch_loop import GemmSettings
from joulelab_actors.laboratory import Laboratory

# MLflow 3.17 asks SQLAlchemy 2.1 for a loader strategy that is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")

SCRIPT = Path(__file__).parents[2] / "experiments/energy_search.py"


@pytest.fixture
def search(cluster, tmp_path, guard_socket, monkeypatch, store_uri):
    """Run the script's search of a small matrix product; returns its exit code.

    The store of its results folder, which takes seconds to make, is there.
    """
    assert store_uri == embedded_uri(tmp_path)
    spec = importlib.util.spec_from_file_location("energy_search", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "energy_search", module)
    spec.loader.exec_module(module)

    def run(num_trials):
        lab = Laboratory(
            num_gpus=1,
            store=tmp_path / "driver",
            study="it",
            results_dir=tmp_path,
            guard_socket=guard_socket,
            procedure=QUICK,
        )
        settings = module.EnergySearch(
            workload=GemmSettings(n=2048),
            lab=lab,
            budget=Budget(num_trials=num_trials),
            algorithm="random",
        )
        return module.main(settings)

    return run


def parent_of(uri):
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    (experiment,) = (e for e in client.search_experiments() if e.name == "it")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    told = client.get_metric_history(parent.info.run_id, "best_cost_ratio")
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    return [metric.step for metric in told], files, [run for run in runs if run is not parent]


def test_a_search_that_goes_on_is_told_and_charted_as_one(search, tmp_path, capfd):
    search(8)
    search(12)

    said = capfd.readouterr()
    steps, files, trials = parent_of(embedded_uri(tmp_path))
    answer = ResultStore(tmp_path / "it").read_answer()
    first, second = (line for line in said.err.splitlines() if line.startswith("Searching"))
    assert "going on" not in first
    assert "going on after 8 trials" in second
    assert "12 of 12 trials, best" in said.err
    assert "Task Exchange" not in said.err + said.out  # Ray's word of a call that was cut off
    assert said.out.count(f"{tmp_path / 'it' / 'report.html'}\n") == 2
    assert answer.note.startswith(("Choose", "Stay"))
    assert [point.step for point in answer.chart] == list(range(1, 13))
    assert sorted(steps) == list(range(1, 13))
    assert files == set(answer.files)
    assert len(trials) == 12
    valid = [run for run in trials if run.data.tags["valid"] == "true"]
    assert len(valid) > 6
    assert all(run.data.metrics["cost_ratio"] > 0 for run in valid)
    assert all(run.data.metrics["energy_per_unit_j"] > 0 for run in valid)
    assert {"sm_clock_mhz", "n", "precision"} <= valid[0].data.params.keys()
