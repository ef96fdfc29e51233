"""What a user sees while MLflow is told of a study that is over."""

from contextlib import closing

import pytest
from synthetic_results import header, measurement

from joulelab.core.record import Record
from joulelab.tracking import tracker_process
from joulelab.tracking.store import ResultStore
from joulelab.tracking.tracker_process import TrackerLink, TrackerProcess

NUM = 300  # six transactions


@pytest.fixture
def measured(tmp_path):
    store = ResultStore(tmp_path / "study")
    made = [measurement(1500, minute=i) for i in range(NUM)]
    store.append(*(Record(measurement=each, trace=None) for each in made))
    yield store, made
    store.close()


def test_how_much_mlflow_has_yet_to_be_told_is_told_until_it_knows_all(
    measured, store_uri, monkeypatch
):
    """The bar stood at 367/367 for minutes while MLflow was told on a busy machine."""
    monkeypatch.setattr(tracker_process, "_LOOK_S", 0.02)  # a transaction takes several looks
    store, made = measured
    left = []
    with closing(
        TrackerLink(store, store_uri, TrackerProcess(str(store.folder), store_uri, header(), 0))
    ) as tracker:
        tracker.send(made)

        report = tracker.finish(left.append)

    assert (report.num_left, report.error) == (0, None)
    assert left == sorted(left, reverse=True)
    assert 0 < left[0] <= NUM
    assert len(set(left)) > 1
