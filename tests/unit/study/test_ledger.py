"""What a study writes into its books, from events made by hand."""

import socket

import pytest
from actor_fixtures import simulated_gpus, site_of, trial
from synthetic_results import record

from joulelab.core.measurement import Finding
from joulelab.study.events import AttemptFailed, TrialMeasured
from joulelab.study.ledger import Ledger, SearchSummary, StudySummary
from joulelab.tracking.store import ResultStore

LOST = Finding(reason="device_lost", detail="It fell off the bus.")


class Listener:
    """A tracker that is up, and notes what it is sent."""

    def __init__(self):
        self.trouble = None
        self.heard = []

    def send(self, measurements):
        self.heard += measurements


@pytest.fixture
def site(tmp_path):
    [address] = simulated_gpus(tmp_path)
    return site_of(address)


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results", "driver")


@pytest.fixture
def tracker():
    return Listener()


@pytest.fixture
def ledger(store, site, tracker):
    return Ledger(store, [site], tracker, lambda event: None)


def measured(site, *records, retried=False):
    return TrialMeasured(
        trial=trial(),
        uuid=site.uuid,
        records=records,
        writer="actor",
        between_s=None,
        retried=retried,
    )


def failed(site, **changes):
    told = {"died": False, "detail": "It broke.", "retried": False, **changes}
    return AttemptFailed(trial=trial(), uuid=site.uuid, **told)


def summary_of(ledger=None, **changes):
    closed = {
        "study": "s",
        "num_trials": 3,
        "num_skipped": 1,
        "unfinished": (),
        "interrupted": False,
        "wall_s": 1.0,
    }
    if ledger is not None:
        return ledger.summary(**closed)
    counted = {
        "num_valid": 2,
        "num_invalid": 0,
        "num_retries": 0,
        "failed": {},
        "quarantined": {},
        "between_s": None,
        "delivery": None,
    }
    return StudySummary(**{**closed, **counted, **changes})


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"failed": {"t": "It broke."}}, 1),
        ({"unfinished": ("t",)}, 1),
        ({"unfinished": ("t",), "interrupted": True}, 130),
    ],
)
def test_a_study_succeeds_only_if_no_trial_is_left_unmeasured(changes, status):
    assert summary_of(**changes).exit_code == status


@pytest.mark.parametrize(("num_valid", "complete"), [(2, True), (1, False)])
def test_trials_that_were_measured_before_count_as_done(num_valid, complete):
    assert summary_of(num_valid=num_valid).complete is complete


def test_a_trial_counts_once_however_often_it_was_tried(ledger, site):
    ledger.note(measured(site, record(findings=[LOST]), retried=True))
    ledger.note(measured(site, record(minute=1)))

    summary = summary_of(ledger)

    assert (summary.num_valid, summary.num_invalid, summary.num_retries) == (1, 0, 1)


def test_a_trial_is_valid_only_if_all_its_phases_are(ledger, site):
    phases = record(phase="prefill"), record(phase="decode", findings=[LOST])

    ledger.note(measured(site, *phases))

    assert (summary_of(ledger).num_valid, summary_of(ledger).num_invalid) == (0, 1)


def test_what_an_actor_stored_where_the_driver_cannot_see_it_is_stored_once_more(
    ledger, site, store
):
    ledger.note(measured(site, record()))

    assert store.read() == [record().measurement]


def test_what_an_actor_stored_in_sight_is_stored_once(ledger, site, store):
    ResultStore(store.folder, "actor").append(record())

    ledger.note(measured(site, record()))

    assert [path.stem for path in (store.folder / "measurements").iterdir()] == ["actor"]


@pytest.mark.parametrize(
    ("told", "reasons"),
    [
        ({"died": True}, ["actor_died"]),
        ({"refused": True}, ["unsupported"]),
        ({}, []),
    ],
)
def test_an_attempt_without_a_measurement_is_on_record_with_its_reason(
    ledger, site, store, told, reasons
):
    ledger.note(failed(site, **told))

    found = store.read()
    assert [finding.reason for m in found for finding in m.findings] == reasons
    assert {m.device.uuid for m in found} <= {site.uuid}
    assert dict(summary_of(ledger).failed) == {trial().name: "It broke."}


def test_a_failure_is_recorded_as_of_the_machine_where_it_happened(ledger, site, store):
    ledger.note(failed(site, died=True))

    [measurement] = store.read()
    assert measurement.provenance.hostname == "node-7" != socket.gethostname()


def test_an_attempt_that_is_followed_by_another_is_no_failure_of_its_trial(ledger, site):
    ledger.note(failed(site, died=True, retried=True))

    summary = summary_of(ledger)
    assert (dict(summary.failed), summary.num_retries) == ({}, 1)


def test_the_tracker_is_offered_every_measurement(ledger, site, tracker, store):
    ledger.note(measured(site, record()))
    ledger.note(failed(site, died=True))

    assert tracker.heard == store.read()


def test_a_tracker_in_trouble_is_told_once_until_it_has_recovered(store, site, tracker):
    events = []
    ledger = Ledger(store, [site], tracker, events.append)
    for minute, trouble in enumerate(["It is locked.", "It is locked.", None, "It is down."]):
        tracker.trouble = trouble
        ledger.note(measured(site, record(minute=minute)))

    told = [event.detail for event in events if not isinstance(event, TrialMeasured)]

    assert [detail.split(".")[0] for detail in told] == ["It is locked", "It is down"]


def test_what_a_search_took_is_written_with_its_prefix():
    """1.2 MJ were "1.2e+03 kJ", and a trial was "1 trials"."""
    study = summary_of(num_skipped=0, num_valid=1)

    summary = SearchSummary(study=study, stopped_by="the strategy", energy_j=1.2e6)

    assert summary.words == "1 trial, 1.2 MJ; ended by the strategy."
