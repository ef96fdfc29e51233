from fcntl import LOCK_EX, flock

import pytest
from synthetic_results import header, record
from typing_extensions import override

from joulelab.errors import ConfigError, TrackingError
from joulelab.tracking.delivery import Delivery, Tracker, deliver
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import Answer


class ListTracker(Tracker):
    """Keeps what it is told in memory; while ``down`` it refuses everything."""

    def __init__(self):
        self.down = False
        self.begun = []
        self.logged = []
        self.finished = []

    @property
    @override
    def target(self):
        return "memory:"

    @override
    def begin(self, header):
        self._check()
        self.begun.append(header)
        return {name for name, _ in self.logged}

    @override
    def log(self, measurement, trace):
        self._check()
        self.logged.append((measurement.measurement_id, trace))

    @override
    def finish(self, *, note, summary, files):
        self._check()
        self.finished.append((note, summary, files))

    @override
    def close(self):
        pass

    def _check(self):
        if self.down:
            raise TrackingError("The server is down.")


def filled(folder, minutes=range(3)):
    store = ResultStore(folder)
    store.write_study(header())
    for minute in minutes:
        store.append(record(minute=minute))
    return store


def ids(store):
    return [m.measurement_id for m in store.read()]


def test_everything_is_delivered_once(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()

    first, second = deliver(store, tracker), deliver(ResultStore(tmp_path, "sync"), tracker)

    assert (first.num_delivered, first.num_left, first.error) == (3, 0, None)
    assert (second.num_delivered, second.num_left) == (0, 0)
    assert [name for name, _ in tracker.logged] == ids(store)


def test_a_tracker_that_takes_batches_gets_them_and_each_is_noted_at_once(tmp_path, monkeypatch):
    store, tracker = filled(tmp_path, range(5)), ListTracker()
    monkeypatch.setattr(ListTracker, "most_at_once", 2)
    sizes, log_batch = [], tracker.log_batch

    def log_until_it_is_down(results):
        tracker.down = len(sizes) == 2
        sizes.append(len(results))
        log_batch(results)

    tracker.log_batch = log_until_it_is_down
    report = deliver(store, tracker)

    assert sizes == [2, 2, 1]
    assert (report.num_delivered, report.num_left) == (4, 1)
    assert store.delivered(target="memory:") == set(ids(store)[:4])


def test_what_a_tracker_has_lost_is_delivered_again(tmp_path):
    """After a store was emptied, or put back from a backup, sync said "delivered 0" for ever."""
    store, tracker = filled(tmp_path), ListTracker()
    deliver(store, tracker)
    del tracker.logged[1:]

    report = deliver(store, tracker)

    assert (report.num_delivered, report.num_left) == (2, 0)
    assert [name for name, _ in tracker.logged] == ids(store)


def test_the_trace_goes_along(tmp_path):
    store, tracker = filled(tmp_path, [0]), ListTracker()

    deliver(store, tracker)

    assert tracker.logged == [(ids(store)[0], store.trace_path(ids(store)[0]))]


def test_a_tracker_that_is_down_leaves_everything_for_later(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()
    tracker.down = True

    report = deliver(store, tracker)
    tracker.down = False
    later = deliver(store, tracker)

    assert (report.num_left, report.error) == (3, "The server is down.")
    assert (later.num_delivered, later.error) == (3, None)


def test_the_answer_is_delivered_last(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()
    store.write_answer(Answer(note="1500 MHz", summary=(("saving", 0.2),), files=("a.html",)))

    deliver(store, tracker)

    assert tracker.finished == [("1500 MHz", {"saving": 0.2}, [tmp_path / "a.html"])]


def test_a_folder_without_a_header_is_refused(tmp_path):
    store = ResultStore(tmp_path)
    store.append(record())

    with pytest.raises(TrackingError, match=r"has no study\.json"):
        deliver(store, ListTracker())


def test_two_deliverers_of_one_folder_are_refused(tmp_path):
    store = filled(tmp_path)
    deliver(store, ListTracker())

    with (tmp_path / "delivered/lock").open("w") as file:
        flock(file, LOCK_EX)
        with pytest.raises(TrackingError, match="Another process is delivering"):
            deliver(store, ListTracker())


def test_a_study_delivers_beside_its_measurements(tmp_path):
    store, tracker = filled(tmp_path, []), ListTracker()
    delivery = Delivery(store, tracker, header())
    for minute in range(5):
        store.append(record(minute=minute))
        delivery.offer([record(minute=minute).measurement])
    store.write_answer(Answer(note="done"))

    report = delivery.close()

    assert (report.num_delivered, report.num_left, report.error) == (5, 0, None)
    assert tracker.begun == [header()]
    assert [name for name, _ in tracker.logged] == ids(store)
    assert tracker.finished == [("done", {}, [])]
    assert store.undelivered(target="memory:") == []


def test_what_is_offered_twice_is_delivered_and_counted_once(tmp_path):
    """What was stored while a clerk looked for its backlog counted twice in its report."""
    store, tracker = filled(tmp_path), ListTracker()
    delivery = Delivery(store, tracker, header())
    delivery.offer([*store.read(), *store.read()])

    report = delivery.close()

    assert (report.num_delivered, report.num_left) == (len(store.read()), 0)
    assert [name for name, _ in tracker.logged] == ids(store)


def test_a_study_goes_on_while_its_tracker_is_down_and_recovers_with_it(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()
    tracker.down = True
    delivery = Delivery(store, tracker, header())
    delivery.offer(store.read())
    tracker.down = False

    report = delivery.close()

    assert (report.num_delivered, report.error) == (3, None)
    assert len(tracker.logged) == 3


def test_a_tracker_down_to_the_end_is_reported_and_sync_delivers_later(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()
    tracker.down = True
    delivery = Delivery(store, tracker, header())
    delivery.offer(store.read())

    report = delivery.close()
    tracker.down = False
    later = deliver(store, tracker)

    assert (report.num_delivered, report.num_left) == (0, 3)
    assert report.error == "The server is down."
    assert later.num_delivered == 3


def test_why_a_delivery_failed_is_known_at_once_and_forgotten_once_it_succeeds(tmp_path):
    store, tracker = filled(tmp_path), ListTracker()
    tracker.down = True
    delivery = Delivery(store, tracker, header())

    refused = delivery.offer(store.read())
    tracker.down = False

    assert (refused, delivery.offer([])) == ("The server is down.", None)
    assert [name for name, _ in tracker.logged] == ids(store)


def test_delivering_a_folder_without_results_is_refused(tmp_path):
    from joulelab.cli.results import Sync

    with pytest.raises(ConfigError, match="must be a results folder"):
        Sync(results_dir=tmp_path).run()
