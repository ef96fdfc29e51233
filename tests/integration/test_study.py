"""Studies over a cluster of three nodes: what is measured, retried, set aside, delivered."""

import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
import ray
from actor_fixtures import CLOCKS_MHZ, QUICK, STUDY, actor_row, gemm, trial, trials
from waiting import until

from joulelab.analysis.compared import comparable
from joulelab.core.plan import plan_sweep
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.errors import ConfigError, DeviceError, GuardError, TrackingError
from joulelab.guard import GuardClient
from joulelab.study.events import (
    AttemptFailed,
    DeviceReady,
    StudyInterrupted,
    TrialMeasured,
    TrialStarted,
)
from joulelab.tracking.store import ResultStore
from joulelab_actors.gpu_actor import GpuActor
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import NAMESPACE

LONG = replace(QUICK, window_s=30.0, min_windows=10, limit_s=600.0)
"""A procedure that takes long enough on the wall clock to be interrupted."""


def kill_actor_of(uuid):
    """SIGKILL the actor's process while it measures; returns its process id."""
    pid = actor_row(uuid)["Pid"]
    os.kill(pid, signal.SIGKILL)
    return pid


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def undisturbed(shared_study):
    """A study on four GPUs; its summary, its store, its events and its actors' nodes."""
    events, places = [], {}

    def look(event):
        events.append(event)
        if isinstance(event, DeviceReady):
            places[event.uuid] = actor_row(event.uuid)["Address"]["NodeID"]

    summary, store = shared_study(trials(repeats=10), num_gpus=4, on_event=look)
    return summary, store, events, places


def test_gpus_are_dealt_out_to_all_nodes_and_every_actor_is_on_its_gpus_node(undisturbed):
    summary, store, _, places = undisturbed

    sites = simulated_sites("h200_sxm", 4, str(store.folder.parent / "driver"))
    assert places == {site.uuid: site.node_id for site in sites}
    assert len(set(places.values())) == 3
    assert summary.complete
    assert summary.num_valid == len(trials(repeats=10))


def test_every_record_names_the_gpu_whose_actor_measured_it(undisturbed):
    _, store, events, _ = undisturbed

    measured_on = {event.trial.name: event.uuid for event in of_kind(events, TrialMeasured)}
    assert {m.trial: m.device.uuid for m in store.read()} == measured_on


def test_every_gpu_takes_its_trials_in_the_order_of_the_plan(undisturbed):
    order = {}
    for event in of_kind(undisturbed[2], TrialStarted):
        order.setdefault(event.uuid, []).append(event.trial.name)

    planned = [t.name for t in trials(repeats=10)]
    assert len(order) == 4
    assert all(names == sorted(names, key=planned.index) for names in order.values())


def test_a_trial_whose_actor_is_killed_is_retried_elsewhere_and_both_are_recorded(study):
    events, killed = [], []

    def kill_first(event):
        events.append(event)
        if isinstance(event, TrialStarted) and not killed:
            killed.append((event.trial.name, event.uuid))
            kill_actor_of(event.uuid)

    summary, store = study(
        [trial(990), trial(810)], num_gpus=2, procedure=LONG, on_event=kill_first
    )

    [(name, uuid)] = killed
    first, second = sorted((m for m in store.read() if m.trial == name), key=lambda m: m.attempt)
    assert [f.reason for f in first.findings] == ["actor_died"]
    assert first.device.uuid == uuid
    assert second.valid
    assert second.attempt == 1
    assert second.device.uuid != uuid
    assert summary.complete
    assert summary.num_retries == 1


def test_what_an_actor_stored_before_it_died_is_not_measured_again(study, monkeypatch):
    class Dying(GpuActor):
        """An actor that is killed after it has stored, and before it can tell."""

        @ray.method(concurrency_group="measure")
        def measure(self, trial, pid):
            super().measure(trial, pid)
            os._exit(1)

    monkeypatch.setattr("joulelab_actors.gpu_actor.GpuActor", Dying)

    summary, store = study([trial(990)])

    [measurement] = store.read()
    assert measurement.valid
    assert (summary.complete, summary.num_retries) == (True, 0)


def test_a_trial_whose_lease_was_lost_is_tried_again(study, guard_socket):
    """The guard was killed: its successor restored the clock in the middle of a window."""
    killed = []

    def kill_guard(event):
        if isinstance(event, TrialStarted) and not killed:
            guard = GuardClient(guard_socket, start=False)
            until(lambda: "990MHz" in points_of(guard))
            killed.append(guard.status().pid)
            os.kill(killed[0], signal.SIGKILL)

    summary, store = study([trial(990)], num_gpus=2, procedure=LONG, on_event=kill_guard)

    first, second = sorted(store.read(), key=lambda m: m.attempt)
    assert [finding.reason for finding in first.findings] == ["lease_lost"]
    assert second.valid
    assert (summary.complete, summary.num_retries) == (True, 1)


def points_of(guard):
    """What a guard has set; nothing while there is no guard."""
    with suppress(GuardError):
        return [lease.point for lease in guard.status().leases]
    return []


def test_an_actor_that_runs_other_code_than_the_driver_measures_nothing(study, monkeypatch):
    monkeypatch.setattr("joulelab_actors.pool.code_version", lambda: "another")

    with pytest.raises(DeviceError, match="runs other code than the driver"):
        study([trial()])


def test_results_that_cannot_be_stored_end_a_study(study, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/traces").write_text("in the way")

    with pytest.raises(TrackingError, match="Cannot write"):
        study([trial()])


def test_a_gpu_whose_actor_keeps_dying_is_set_aside_and_the_rest_go_on(study):
    victim = "SIM-h200_sxm-0"

    def kill_always(event):
        if isinstance(event, TrialStarted) and event.uuid == victim:
            kill_actor_of(victim)
            # Until it is back: the other GPU would do all the trials meanwhile.
            actor = ray.get_actor(f"joulelab:{victim}", namespace=NAMESPACE)
            ray.get(actor.ready.remote(), timeout=60)

    many = trials(repeats=3)  # the other GPU does those that it has while this one comes back
    summary, _ = study(many, num_gpus=2, procedure=LONG, on_event=kill_always)

    assert summary.complete
    assert list(summary.quarantined) == [victim]
    assert "3 times in a row" in summary.quarantined[victim]


def test_a_lost_device_leaves_an_invalid_measurement_and_the_rest_go_on(study, tmp_path):
    victim = "SIM-h200_sxm-1"

    def lose(event):
        if isinstance(event, TrialStarted) and event.uuid == victim:
            DriverStore(tmp_path / "driver").state(victim).inject(Fault(kind="lost"))

    summary, store = study(trials(), num_gpus=2, procedure=LONG, on_event=lose)

    lost = [m for m in store.read() if not m.valid]
    assert {f.reason for m in lost for f in m.findings} == {"device_lost"}
    assert {m.device.uuid for m in lost} == {victim}
    assert list(summary.quarantined) == [victim]
    assert summary.complete


def test_no_gpu_left_is_an_error_that_says_why(study, tmp_path):
    DriverStore(tmp_path / "driver").create("h200_sxm", 0).inject(Fault(kind="lost"))

    with pytest.raises(DeviceError, match="SIM-h200_sxm-0"):
        study(trials())


def test_refused_setters_are_told_with_what_to_do_and_recorded(study, tmp_path):
    DriverStore(tmp_path / "driver").create("h200_sxm", 0, restricted=True)

    with pytest.raises(DeviceError, match="--observe-only"):
        study([trial(990)])

    [measurement] = ResultStore(tmp_path / "results").read()
    assert [f.reason for f in measurement.findings] == ["permission_denied"]


def test_a_wrong_request_starts_nothing_and_writes_nothing(study, tmp_path):
    with pytest.raises(ConfigError, match="990 and 1005"):
        study([trial(1000)])

    assert not (tmp_path / "results").exists()


def test_a_second_run_measures_only_what_is_missing(study):
    study(trials()[:3])

    summary, store = study(trials())

    assert summary.num_skipped == 3
    assert Counter(m.trial for m in store.read()) == Counter(t.name for t in trials())


def test_a_gpu_that_another_study_holds_is_left_alone(study, monkeypatch):
    class Holder:
        def ping(self):
            return True

    monkeypatch.setattr("joulelab_actors.pool.NAME_TIMEOUT_S", 0.5)
    taken = ray.remote(Holder).options(name="joulelab:SIM-h200_sxm-0", namespace=NAMESPACE)
    holder = taken.remote()
    ray.get(holder.ping.remote())

    summary, store = study(trials(), num_gpus=2)
    ray.kill(holder)

    assert "another study" in summary.quarantined["SIM-h200_sxm-0"]
    assert {m.device.uuid for m in store.read()} == {"SIM-h200_sxm-1"}
    assert summary.complete


def test_died_attempts_count_as_failures_only_if_no_try_is_left(study):
    events = []

    def kill_always(event):
        events.append(event)
        if isinstance(event, TrialStarted) and event.trial.name == "990MHz-r0":
            kill_actor_of(event.uuid)

    summary, store = study(
        [trial(990), trial(810)], num_gpus=2, procedure=LONG, on_event=kill_always
    )

    assert [e.retried for e in of_kind(events, AttemptFailed)] == [True, True, False]
    assert list(summary.failed) == ["990MHz-r0"]
    assert sorted(m.attempt for m in store.read() if m.trial == "990MHz-r0") == [0, 1, 2]


def test_what_a_gpu_cannot_compute_is_recorded_with_its_reason_and_the_rest_go_on(study):
    asked = [
        Trial(study="test", name=precision, configuration=gemm(precision=precision))
        for precision in ("fp16", "bf16")
    ]

    summary, store = study(asked, gpu="v100_sxm2")

    by_trial = {m.trial: m for m in store.read()}
    assert by_trial["fp16"].valid
    assert [f.reason for f in by_trial["bf16"].findings] == ["unsupported"]
    assert list(summary.failed) == ["bf16"]
    assert summary.num_retries == 0, "asking again would be refused again"
    assert not summary.quarantined


def test_a_study_of_one_block_compares_all_its_gpus(study):
    asked = [gemm(clock) for clock in CLOCKS_MHZ]
    plan = plan_sweep(STUDY, asked, repeats=1, sentinel=asked[0])
    events = []

    summary, store = study(plan, num_gpus=3, on_event=events.append)

    begun = {}
    for event in of_kind(events, TrialStarted):
        begun.setdefault(event.uuid, event.trial.sentinel)
    measurements = store.read()
    counted, apart = comparable(measurements, lambda m: m.configuration.point.label, "990MHz")
    assert begun == dict.fromkeys({m.device.uuid for m in measurements}, True)
    assert summary.complete
    assert len(begun) == 3
    assert (len(counted), apart) == (len(asked) + 3, ())


def test_an_interrupted_study_concludes_from_what_it_has_and_goes_on_later(study):
    events, concluded = [], []

    def interrupt(event):
        events.append(event)
        if isinstance(event, TrialMeasured) and len(of_kind(events, TrialMeasured)) == 3:
            signal.raise_signal(signal.SIGTERM)

    plan = trials(repeats=3)
    first, _ = study(
        plan, num_gpus=2, on_event=interrupt, conclude=lambda s: concluded.append(s.read())
    )
    second, store = study(plan, num_gpus=2)

    assert of_kind(events, StudyInterrupted) == [StudyInterrupted(study=STUDY)]
    assert (first.interrupted, first.exit_code) == (True, 130)
    # Each GPU may have stored a trial, and the next that waited, that were not yet reported.
    [known] = concluded
    assert first.num_valid <= len(known) <= first.num_valid + 2 * 2
    assert 3 <= first.num_valid < len(plan)
    assert len(first.unfinished) == len(plan) - first.num_valid
    assert (second.interrupted, second.exit_code) == (False, 0)
    assert second.num_skipped >= first.num_valid
    assert Counter(m.trial for m in store.read() if m.valid) == Counter(t.name for t in plan)


def test_a_study_interrupted_before_it_can_say_anything_is_just_interrupted(study, heeded):
    def interrupt(event):
        if isinstance(event, DeviceReady):
            signal.raise_signal(signal.SIGINT)

    def conclude(store):
        raise ConfigError("There is nothing to say.")

    with pytest.raises(KeyboardInterrupt, match=f"Nothing was measured yet.*{STUDY} goes on"):
        study(trials(), on_event=interrupt, conclude=conclude)
