import http.server
import shutil
import threading

import pytest
from synthetic_results import header

from joulelab.cli.watch import free_port, has_desktop, open_when_ready, pages
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker

# MLflow 3.17 asks SQLAlchemy 2.1 for a loader strategy that is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")


def test_the_runs_of_the_newest_study_come_first_and_empty_experiments_not_at_all(
    fresh_store, tmp_path
):
    from mlflow import MlflowClient

    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    uri = embedded_uri(tmp_path)
    for name in ("older", "newer"):
        MlflowTracker(uri).begin(header(name=name, sweep_id=name))
    client = MlflowClient(uri)
    numbers = {
        name: client.get_experiment_by_name(name).experiment_id for name in ("older", "newer")
    }
    for name, start_ms in (("older", 10**13), ("newer", 2 * 10**13)):
        client.create_run(numbers[name], start_ms)

    found = pages(tmp_path, "http://127.0.0.1:5000")

    assert found[:2] == [
        (
            name,
            f"http://127.0.0.1:5000/#/experiments/{numbers[name]}/runs"
            "?workflowType=machine_learning&viewStateShareKey=joulelab",
        )
        for name in ("newer", "older")
    ]
    assert "Default" not in dict(found)


def test_an_experiment_without_a_view_is_opened_as_mlflow_does(fresh_store, tmp_path):
    from mlflow import MlflowClient

    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    client = MlflowClient(embedded_uri(tmp_path))
    client.create_run(client.create_experiment("another's"))

    assert dict(pages(tmp_path, ""))["another's"].endswith("workflowType=machine_learning")


@pytest.mark.parametrize(
    ("environment", "answer"),
    [({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "wayland-0"}, True), ({}, False)],
)
def test_a_browser_is_opened_on_a_desktop_alone(environment, answer, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")

    assert has_desktop(environment) is answer


def test_a_page_is_opened_once_its_server_answers():
    shown = []
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"

        opened = open_when_ready(address, "page", show=lambda page: not shown.append(page))
        thread.join()

    assert opened
    assert shown == ["page"]


def test_no_page_is_opened_of_a_server_that_never_answers():
    shown = []

    opened = open_when_ready(
        f"http://127.0.0.1:{free_port(18300)}", "page", show=shown.append, patience_s=0.1
    )

    assert not opened
    assert shown == []
