"""The actor of one GPU, without Ray."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from actor_fixtures import QUICK, simulated_gpus, trial
from alone import run_alone
from guard_fakes import end_guard
from synthetic_results import record

from joulelab.bench import Bench
from joulelab.core.device import DeviceAddress
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.errors import ConfigError, DeviceError, DeviceNotFoundError, TrackingError
from joulelab.guard import GuardClient
from joulelab.study.resume import stored_records
from joulelab.study.worker import WorkerSettings
from joulelab.tracking.store import ResultStore
from joulelab_actors import gpu_actor
from joulelab_actors.gpu_actor import ActorReplacedError, GpuActor, require_cuda_sees_only
from joulelab_actors.node_facts import code_version


@pytest.fixture
def gpu(tmp_path):
    [address] = simulated_gpus(tmp_path)
    return address


@pytest.fixture
def settings(tmp_path):
    return WorkerSettings(results_dir=tmp_path / "results", procedure=QUICK, observe_only=True)


@pytest.fixture
def actor(gpu, settings):
    actor = GpuActor(gpu, settings)
    yield actor
    actor.close()


def test_an_actor_says_which_device_and_which_code_it_holds(actor, gpu):
    ready = actor.ready()

    assert ready.identity.uuid == gpu.uuid
    assert ready.code_version == code_version()


def test_a_trial_is_in_the_store_before_it_is_reported(actor, settings):
    report = actor.measure(trial(), os.getpid())

    [measurement] = ResultStore(Path(settings.results_dir)).read()
    assert measurement == report.records[0].measurement
    assert measurement.valid, measurement.findings


def test_a_device_reads_ahead_for_the_program_that_waits_for_it(actor, monkeypatch):
    expected = []
    monkeypatch.setattr(Bench, "expect", lambda _bench, asked: expected.append(asked))

    actor.expect(trial())  # nothing is open yet
    actor.ready()
    actor.expect(trial())

    assert expected == [trial().configuration]


def test_a_trial_that_was_given_to_the_process_before_is_not_measured(actor, settings):
    with pytest.raises(ActorReplacedError, match="was replaced before it began the trial"):
        actor.measure(trial(), os.getpid() + 1)

    assert ResultStore(Path(settings.results_dir)).read() == []


def test_what_an_actor_stored_can_be_recalled_after_its_death(actor, settings):
    report = actor.measure(trial(), os.getpid())
    store = ResultStore(Path(settings.results_dir))

    [record] = stored_records(store, report.writer, trial())

    assert record.measurement == report.records[0].measurement
    assert record.trace.power_w.tolist() == report.records[0].trace.power_w.tolist()


def test_an_abandoned_actor_stores_nothing_more(actor, settings):
    actor.measure(trial(), os.getpid())
    actor.abandon()

    with pytest.raises(TrackingError, match="nothing is stored"):
        actor.measure(trial(repeat=1), os.getpid())

    assert len(ResultStore(Path(settings.results_dir)).read()) == 1


def test_half_a_trial_that_an_actor_stored_is_not_recalled(tmp_path):
    store = ResultStore(tmp_path, "actor")
    prefill, decode = record(phase="prefill", trial="t"), record(phase="decode", trial="t")
    asked = Trial(
        study=decode.measurement.study, name="t", configuration=decode.measurement.configuration
    )
    store.append(prefill)
    assert stored_records(store, "actor", asked) == ()

    store.append(decode)

    recalled = stored_records(store, "actor", asked)
    assert [each.measurement.phase for each in recalled] == ["prefill", "decode"]


def test_another_attempt_of_the_same_trial_is_not_recalled(actor, settings):
    report = actor.measure(trial(), os.getpid())
    store = ResultStore(Path(settings.results_dir))

    assert stored_records(store, report.writer, trial(attempt=1)) == ()


def test_an_observing_actor_refuses_a_point_and_sets_nothing(actor, gpu):
    with pytest.raises(ConfigError, match="observe-only"):
        actor.measure(trial(990), os.getpid())

    assert DriverStore(gpu.store).locked_uuids() == ()


def test_a_device_that_was_lost_is_opened_anew_for_the_next_trial(actor, gpu):
    actor.ready()
    driver = DriverStore(gpu.store).state(gpu.uuid)
    driver.inject(Fault(kind="lost", at_s=5.0))
    actor.measure(trial(), os.getpid())
    driver.clear_faults()

    report = actor.measure(trial(repeat=1), os.getpid())

    assert report.records[0].measurement.valid


def test_a_device_that_is_not_there_is_said_by_ready(settings, gpu):
    absent = DeviceAddress(backend="simulated", uuid="SIM-h900-0", store=gpu.store)

    with pytest.raises(DeviceNotFoundError, match="SIM-h900-0"):
        GpuActor(absent, settings).ready()


def test_cuda_that_sees_no_gpu_is_an_error_that_says_what_to_do():
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES"):
        require_cuda_sees_only("GPU-aaaa")


@pytest.fixture
def guarded(gpu, settings, tmp_path):
    socket = tmp_path / "g.sock"
    actor = GpuActor(gpu, replace(settings, observe_only=False, guard_socket=socket))
    yield actor
    actor.close()
    end_guard(socket)


def test_clocks_are_borrowed_for_a_trial_and_given_back(guarded, gpu):
    report = guarded.measure(trial(990), os.getpid())

    measurement = report.records[0].measurement
    assert measurement.valid, measurement.findings
    assert measurement.observed.sm_clock_mhz == 990
    assert DriverStore(gpu.store).locked_uuids() == ()


def test_a_closed_actor_has_nothing_on_loan(guarded, tmp_path):
    guarded.measure(trial(990), os.getpid())
    guard = GuardClient(tmp_path / "g.sock", start=False)
    assert len(guard.status().leases) == 1

    guarded.close()

    assert guard.status().leases == ()


def test_after_a_lost_lease_the_next_trial_takes_a_new_one(guarded, gpu, tmp_path):
    """The guard ended between two trials: the second must not fail for it."""
    guarded.measure(trial(990), os.getpid())
    GuardClient(tmp_path / "g.sock", start=False).stop()

    report = guarded.measure(trial(810), os.getpid())

    measurement = report.records[0].measurement
    assert measurement.valid, measurement.findings
    assert DriverStore(gpu.store).locked_uuids() == ()


def test_an_actor_on_a_simulated_gpu_imports_no_torch_once_the_cost_is_known(actor, settings):
    actor.measure(trial(), os.getpid())  # counts the cost, or finds it counted
    code = (
        "import sys; from pathlib import Path; from actor_fixtures import *\n"
        "from joulelab.study.worker import WorkerSettings\n"
        "from joulelab_actors.gpu_actor import GpuActor\n"
        f"[gpu] = simulated_gpus(Path({str(settings.results_dir.parent)!r}))\n"
        f"folder = Path({str(settings.results_dir)!r})\n"
        "settings = WorkerSettings(results_dir=folder, procedure=QUICK)\n"
        "import os; GpuActor(gpu, settings).measure(trial(), os.getpid())\n"
        "assert not {'torch', 'mlflow', 'transformers'} & set(sys.modules)"
    )

    run_alone(code, "actors")


def test_an_actor_that_is_killed_is_not_asked_again_whether_it_is_ready(monkeypatch):
    """Ray printed that it would retry, infinitely, in the colours of a failure."""
    calls = []
    handle = SimpleNamespace(ready=SimpleNamespace(remote=lambda: "probe"))
    monkeypatch.setattr(gpu_actor, "_start_actor", lambda *_: handle)
    monkeypatch.setattr(ray, "cancel", lambda ref: calls.append(("cancel", ref)))
    monkeypatch.setattr(ray, "kill", lambda actor: calls.append(("kill", actor)))
    member = gpu_actor.Member(None, None)

    member.kill()

    assert calls == [("cancel", "probe"), ("kill", handle)]
    assert member.probe is None
