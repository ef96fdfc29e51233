"""A tracker in a process of its own, and the link to it."""

import os
import signal
import time
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace

import pytest
from synthetic_results import header, measurement
from waiting import PATIENCE_S

from joulelab.core.record import Record
from joulelab.errors import TrackingError
from joulelab.tracking import tracker_process
from joulelab.tracking.store import ResultStore
from joulelab.tracking.tracker_process import TrackerLink, TrackerProcess


@pytest.fixture
def store(tmp_path):
    store = ResultStore(tmp_path / "study")
    store.append(*(Record(measurement=m, trace=None) for m in made()))
    store.write_study(header())
    yield store
    store.close()


def made():
    return [measurement(1500, minute=i) for i in range(3)]


def process_of(store, uri):
    return TrackerProcess(str(store.folder), uri, header(), 0)


def its_process(process):
    return process._process


def test_what_is_sent_is_delivered(store, store_uri):
    with closing(TrackerLink(store, store_uri, process_of(store, store_uri))) as link:
        link.send(made())

        report = link.finish()

    assert (report.num_delivered >= 3, report.num_left, report.error) == (True, 0, None)
    assert store.undelivered(target=store_uri) == []


def test_a_tracker_that_dies_is_started_again_and_delivers_all(store, store_uri):
    process = process_of(store, store_uri)
    with closing(TrackerLink(store, store_uri, process)) as link:
        its_process(process).send_signal(signal.SIGSTOP)
        its_process(process).kill()

        link.send(made())
        report = link.finish()

    assert (report.num_left, report.error) == (0, None)
    assert store.undelivered(target=store_uri) == []


def test_a_tracker_that_dies_always_leaves_everything_to_sync_and_says_so(
    store, store_uri, monkeypatch
):
    monkeypatch.setattr(tracker_process, "_MOST_STARTS", 1)
    process = process_of(store, store_uri)
    with closing(TrackerLink(store, store_uri, process)) as link:
        its_process(process).send_signal(signal.SIGSTOP)
        its_process(process).kill()

        link.send(made())
        report = link.finish()

    assert report.num_left == 3
    assert report.error == "The tracker's process failed: It ended with exit code -9."


def test_a_tracker_that_hangs_leaves_everything_to_sync_after_time_for_every_measurement(
    store, monkeypatch
):
    monkeypatch.setattr(tracker_process, "_CLOSE_BASE_S", 0.1)
    monkeypatch.setattr(tracker_process, "_CLOSE_PER_MEASUREMENT_S", 0.1)
    monkeypatch.setattr(tracker_process, "_LOOK_S", 0.01)
    link = TrackerLink(store, "http://server", SimpleNamespace(call=lambda *_: Future()))
    link.send(made())
    start_s = time.monotonic()

    report = link.finish()

    assert 0.4 <= time.monotonic() - start_s < PATIENCE_S
    assert report.num_left == 3
    assert report.error == "The tracker's process failed: It did not answer in time."


def test_a_clerk_that_cannot_begin_says_why(store):
    process = process_of(store, "sqlite:///relative.db")

    with pytest.raises(TrackingError, match="must hold an absolute path"):
        process.call("offer_backlog").result(60)

    process.end()


def test_an_interruption_of_the_terminal_does_not_reach_the_clerk(store, store_uri):
    process = process_of(store, store_uri)

    assert os.getpgid(its_process(process).pid) != os.getpgid(0)

    process.end()


def test_a_clerk_ends_with_whoever_started_it(store, store_uri):
    process = process_of(store, store_uri)
    assert process.call("offer", []).result(60) is None

    process._connection.close()

    assert its_process(process).wait(PATIENCE_S) == 0
    process.end()
