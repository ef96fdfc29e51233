"""Studies of this process in MLflow."""

import shutil
import sys

import pytest
from alone import run_alone

import joulelab
from joulelab.cli.results import Sync
from joulelab.errors import ConfigError
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.mlflow_store import open_client
from joulelab.tracking.store import ResultStore

CLOCKS_MHZ = (1200, 990, 810)
# MLflow 3.17 asks SQLAlchemy 2.1 for a loader strategy that is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
OWN = ("mlflow.parentRunId",)
"""Tags that hold ids of the store's own."""


def runs(uri, experiment):
    """Return what MLflow shows of an experiment, without its ids and without the time of day."""
    client = open_client(uri)
    home = client.get_experiment_by_name(experiment)
    found = []
    for run in client.search_runs([home.experiment_id]):
        tags = {name: text for name, text in run.data.tags.items() if name not in OWN}
        told = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        courses = {
            name: {point.step: point.value for point in sorted(points, key=lambda p: p.timestamp)}
            for name, points in told.items()
        }
        files = sorted(file.path for file in client.list_artifacts(run.info.run_id))
        is_child = "mlflow.parentRunId" in run.data.tags
        times = (run.info.start_time, run.info.end_time if is_child else None)
        found.append(
            (run.info.run_name, run.info.status, times, tags, run.data.params, courses, files)
        )
    return sorted(found, key=lambda run: (run[0], str(run[3])))


@pytest.fixture
def uri(fresh_store, tmp_path):
    """Return the address of a store other than ``store_uri``."""
    folder = tmp_path / "other"
    folder.mkdir()
    shutil.copy(fresh_store, folder / "mlflow.db")
    return embedded_uri(folder)


@pytest.mark.parametrize(
    "study",
    [
        lambda lab: joulelab.measure("gemm", lab=lab),
        lambda lab: joulelab.sweep("gemm", clocks_mhz=CLOCKS_MHZ, repeats=1, lab=lab),
        lambda lab: joulelab.search("gemm", {"sm_clock_mhz": CLOCKS_MHZ, "n": [64, 4096]}, lab=lab),
    ],
    ids=["measure", "sweep", "search"],
)
def test_what_is_delivered_as_it_is_measured_is_what_sync_delivers_later(
    make_lab, store_uri, uri, study
):
    result = study(make_lab(tracking_uri=uri))

    assert result.summary.delivery.error is None
    assert result.summary.delivery.num_delivered == len(result.measurements)
    assert Sync(results_dir=result.folder, tracking_uri=store_uri).run() == 0
    delivered = runs(uri, result.folder.name)
    assert len(delivered) == len(result.measurements) + 1
    assert delivered == runs(store_uri, result.folder.name)


def test_a_study_that_goes_on_delivers_what_it_left_undelivered(make_lab, uri):
    first = joulelab.measure("gemm", lab=make_lab(study="left"))

    second = joulelab.measure("gemm", repeats=2, lab=make_lab(study="left", tracking_uri=uri))

    assert first.summary.delivery is None
    assert second.summary.delivery.num_delivered == 2
    assert ResultStore(second.folder).undelivered(target=uri) == []


def test_a_store_that_is_not_there_fails_no_study_and_says_how_to_deliver_later(make_lab, caplog):
    result = joulelab.measure("gemm", lab=make_lab(tracking_uri="http://ann:hunter2@127.0.0.1:9"))

    assert result.valid
    assert result.summary.delivery.num_left == 1
    assert f"joulelab sync {result.folder} --tracking-uri URI, with its password" in caplog.text
    everything = [p.read_text(errors="ignore") for p in result.folder.rglob("*") if p.is_file()]
    assert not any("hunter2" in text for text in [caplog.text, *everything])
    assert any("http://***@127.0.0.1:9" in text for text in everything)


@pytest.mark.parametrize("wrong", ["nonsense", "http://", "sqlite:////proc/no/mlflow.db"])
def test_what_can_be_no_store_is_refused_before_anything_is_measured(make_lab, tmp_path, wrong):
    with pytest.raises(ConfigError):
        joulelab.measure("gemm", lab=make_lab(tracking_uri=wrong))

    assert not (tmp_path / "results").exists()


def test_a_missing_mlflow_is_refused_with_its_extra_before_anything_is_measured(
    make_lab, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "mlflow", None)

    with pytest.raises(ConfigError, match=r"pip install 'joulelab\[tracking\]'"):
        joulelab.measure("gemm", lab=make_lab(tracking_uri=embedded_uri(tmp_path)))

    assert not (tmp_path / "results").exists()


def test_the_program_that_is_measured_has_no_mlflow_in_its_process(
    tmp_path, guard_socket, store_uri
):
    code = (
        "import sys, os, joulelab; from pathlib import Path\n"
        "from actor_fixtures import QUICK\n"
        "before = dict(os.environ)\n"
        f"lab = joulelab.Lab(device='simulated', gpu='h200_sxm', store={str(tmp_path)!r},\n"
        f"    results_dir={str(tmp_path)!r}, guard_socket=Path({str(guard_socket)!r}),\n"
        f"    tracking_uri={store_uri!r}, procedure=QUICK, progress=False)\n"
        "print(joulelab.measure('gemm', lab=lab).summary.delivery)\n"
        "assert 'mlflow' not in sys.modules\n"
        "assert os.environ == before"
    )

    assert "num_delivered=1, num_left=0" in run_alone(code)
