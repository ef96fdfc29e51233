"""Calibrations of boards, kept in an MLflow store and read back."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from joulelab.errors import ConfigError, TrackingError
from joulelab.hardware.board_facts import read_board_facts
from joulelab.tracking.addresses import embedded_uri
from joulelab.tracking.mlflow_calibrations import (
    calibration_file,
    own_calibration,
    register_calibration,
)
from joulelab.tracking.mlflow_registry import Kept, keep
from joulelab.tracking.mlflow_store import open_client

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]
BOARD = Path(__file__).parents[3] / "experiments" / "results" / "h200_calibration" / "board.json"


@pytest.fixture(scope="module")
def facts():
    return read_board_facts(BOARD)


@pytest.fixture(scope="module")
def uri(fresh_store, tmp_path_factory, facts):
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(fresh_store, folder / "mlflow.db")
    found = embedded_uri(folder)
    for number in (1, 2):
        assert register_calibration(found, "node7-gpu0", facts).version == number
    return found


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("where", ["models:/node7-gpu0", "models:/node7-gpu0/1"])
def test_what_was_registered_is_read_back_as_it_was(uri, facts, where):
    assert read_board_facts(calibration_file(where, uri)) == facts


def test_an_address_may_be_a_path(uri, facts):
    assert read_board_facts(calibration_file(Path("models:/node7-gpu0"), uri)) == facts


def test_a_file_is_taken_as_it_is(uri):
    assert calibration_file(BOARD, uri) == BOARD


def test_every_figure_with_its_uncertainty_is_a_metric_and_the_board_a_tag(uri, facts):
    client = open_client(uri)
    run = client.get_run(client.get_model_version("node7-gpu0", "2").run_id).data

    assert run.tags["joulelab.uuid"] == facts.device.uuid
    for fact in facts.facts:
        assert run.metrics.get(fact.name) == fact.value
        assert run.metrics.get(f"{fact.name}.u") == (fact.u if fact.value is not None else None)


@pytest.mark.parametrize("where", ["models:/unknown", "models:/node7-gpu0/9"])
def test_what_is_not_there_is_named(uri, where):
    with pytest.raises(TrackingError, match=r"unknown|version=9"):
        calibration_file(where, uri)


@pytest.mark.parametrize("where", ["models:/", "models:/node7-gpu0/newest"])
def test_an_address_that_is_none_is_refused(uri, where):
    with pytest.raises(ConfigError, match="models:/NAME or models:/NAME/NUMBER"):
        calibration_file(where, uri)


def test_without_a_store_a_registered_one_is_refused():
    with pytest.raises(ConfigError, match="there is none: name one, or the file"):
        calibration_file("models:/node7-gpu0", None)


def test_what_is_no_calibration_is_refused(uri):
    other = Kept(experiment="others", about="", head="Something else.", tags={}, metrics={})
    keep(uri, "other", other, lambda folder: (folder / "model").mkdir() or _note(folder / "model"))

    with pytest.raises(TrackingError, match=r"has no board\.json"):
        calibration_file("models:/other", uri)


def _note(folder):
    (folder / "note.txt").write_text("no calibration")


def test_the_newest_calibration_of_a_board_is_found(uri, facts):
    newer = replace(facts, measured_at="2026-12-01T00:00:00+00:00")
    register_calibration(uri, "again", newer)

    assert own_calibration(uri, facts.device, facts.host) == newer


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        (("1.2", "vm"), "driver was 580.159.04 and is 1.2"),
        (("580.159.04", "elsewhere"), "host was vm and is elsewhere"),
    ],
)
def test_one_with_another_driver_or_host_is_not_taken(uri, facts, caplog, now, difference):
    driver, host = now
    device = replace(facts.device, driver_version=driver)

    assert own_calibration(uri, device, host) is None
    assert difference in caplog.text


def test_that_of_another_board_is_none(uri, facts, caplog):
    other = replace(facts.device, uuid="GPU-other")

    assert own_calibration(uri, other, facts.host) is None
    assert not caplog.text


def test_a_store_that_is_not_there_is_left_so(tmp_path, facts):
    uri = embedded_uri(tmp_path)

    assert own_calibration(uri, facts.device, facts.host) is None
    assert not list(tmp_path.glob("*.db"))


def test_a_store_that_cannot_be_read_is_logged_and_not_taken(tmp_path, facts, caplog):
    uri = embedded_uri(tmp_path)
    (tmp_path / "mlflow.db").write_text("no database " * 100)

    assert own_calibration(uri, facts.device, facts.host) is None
    assert "not a database" in caplog.text
