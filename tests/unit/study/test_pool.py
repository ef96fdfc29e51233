"""Trials in this process, on one GPU after another; what ties the GPUs of a study together."""

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from actor_fixtures import CLOCKS_MHZ, QUICK, STUDY, gemm, simulated_gpus, trial
from synthetic_results import measurement

from joulelab.core.measurement import Finding
from joulelab.core.plan import plan_sweep
from joulelab.core.trial import Trial
from joulelab.devices.choice import open_device
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.errors import ConfigError
from joulelab.study.events import AttemptFailed, DeviceQuarantined, TrialMeasured, TrialStarted
from joulelab.study.gpu import StudyGpu
from joulelab.study.pool import LocalPool, ties
from joulelab.study.resume import rest_of
from joulelab.study.schedule import TrialSource
from joulelab.study.worker import GpuWorker, WorkerSettings


def study_gpu(address):
    with closing(open_device(address)) as device:
        return StudyGpu(
            address=address,
            identity=device.identity(),
            capabilities=device.capabilities(),
            hostname=socket.gethostname(),
        )


@pytest.fixture
def pool(tmp_path):
    gpus = [study_gpu(address) for address in simulated_gpus(tmp_path, 2)]
    settings = WorkerSettings(results_dir=tmp_path / "results", procedure=QUICK, observe_only=True)
    pool = LocalPool(gpus, settings)
    yield pool
    pool.close()


def lose(folder, number):
    address = simulated_gpus(folder, 2)[number]
    DriverStore(address.store).state(address.uuid).inject(Fault(kind="lost"))
    return address.uuid


def measured(events):
    return [event for event in events if isinstance(event, TrialMeasured)]


def test_gpus_take_trials_by_turns(pool):
    events = list(pool.run([trial(repeat=n) for n in range(4)]))

    uuids = [event.uuid for event in measured(events)]
    assert uuids[0::2] == [uuids[0]] * 2
    assert len(set(uuids)) == 2
    assert pool.unfinished == ()


def test_a_gpu_knows_what_comes_next_while_it_measures(pool, monkeypatch):
    expected = []
    monkeypatch.setattr(GpuWorker, "expect", lambda _worker, trial: expected.append(trial))
    plan = [trial(repeat=n) for n in range(3)]

    list(pool.run(plan))

    assert expected == [*plan[1:], None]


def test_a_gpu_that_is_lost_is_put_out_of_service_and_the_other_does_its_trials(pool, tmp_path):
    lost = lose(tmp_path, 0)

    events = list(pool.run([trial(repeat=n) for n in range(3)]))

    assert [e.uuid for e in events if isinstance(e, DeviceQuarantined)] == [lost]
    assert {event.trial.name for event in measured(events) if not event.retried} == {
        f"default-r{n}" for n in range(3)
    }
    assert lost not in {event.uuid for event in measured(events) if not event.retried}


def test_trials_that_no_gpu_is_left_for_stay_unfinished(pool, tmp_path):
    lose(tmp_path, 0)
    lose(tmp_path, 1)

    list(pool.run([trial(repeat=n) for n in range(3)]))

    assert len(pool.unfinished) == 3


def test_a_request_that_cannot_be_is_not_tried_again(pool):
    [failed] = [e for e in pool.run([trial(990)]) if isinstance(e, AttemptFailed)]

    assert failed.refused
    assert not failed.retried


def test_nothing_is_begun_once_it_must_stop(pool):
    begun = []

    def must_stop():
        return len(begun) == 1

    for event in pool.run([trial(repeat=n) for n in range(3)], must_stop=must_stop):
        begun += [event] if isinstance(event, TrialStarted) else []

    assert len(begun) == 1
    assert len(pool.unfinished) == 2


class Two(TrialSource):
    """Two trials, the second once the first has been asked for."""

    def __init__(self):
        self.num = 0

    def take(self, uuid):
        if self.num == 2:
            return None
        self.num += 1
        return Trial(study="test", name=f"t{self.num}", configuration=gemm())

    @property
    def is_done(self):
        return self.num == 2


def test_a_source_is_asked_until_it_is_done(pool):
    events = list(pool.run([], Two()))

    assert [event.trial.name for event in measured(events)] == ["t1", "t2"]


def test_no_gpu_is_refused():
    with pytest.raises(ConfigError, match="at least one GPU"):
        LocalPool([], WorkerSettings(results_dir=Path("/nowhere")))


PRODUCT = "Invented GPU"


@pytest.fixture
def known():
    return measurement(phase="gemm")


def planned(num, *, repeats=1):
    """Return a plan of clocks with a sentinel before every two of them."""
    clocks = [gemm(clock) for clock in CLOCKS_MHZ[:num]]
    return plan_sweep(STUDY, clocks, repeats=repeats, sentinel=gemm(), sentinel_every=2)


def tied(plan, known, uuids):
    return ties(plan, rest_of(plan, known), known, dict.fromkeys(uuids, PRODUCT))


def test_every_gpu_of_a_study_has_a_sentinel_to_begin_with():
    added, untied = tied(planned(4), [], ["a", "b", "c"])

    [sentinel] = added
    assert untied == {"a", "b", "c"}
    assert sentinel.sentinel
    assert sentinel.configuration == gemm()
    assert sentinel.name not in {trial.name for trial in planned(4)}


def test_a_study_that_goes_on_on_another_gpu_gets_it_a_sentinel_of_its_own(known):
    plan = planned(1)
    done = replace(known, trial=plan[0].name, configuration=gemm(), sentinel=True, study=STUDY)

    added, untied = tied(plan, [done], [done.device.uuid, "other"])

    assert untied == {"other"}
    assert [trial.repeat for trial in added] == [1]
    again, _ = tied(plan, [done, replace(done, trial=added[0].name, repeat=1)], ["third"])
    assert [trial.repeat for trial in again] == [2]


def test_a_sentinel_that_failed_compares_nothing(known):
    plan = planned(2)
    finding = Finding(reason="actor_died", detail="It died.")
    died = replace(known, windows=(), findings=(finding,), sentinel=True, trial=plan[0].name)

    _, untied = tied(plan, [died], [died.device.uuid])

    assert untied == {died.device.uuid}


def test_no_sentinel_is_added_where_none_is_planned_or_nothing_is_left(known):
    plan = planned(1)
    done = [replace(known, trial=t.name, configuration=t.configuration) for t in plan]

    assert tied([trial()], [], ["a", "b"]) == ([], frozenset())
    assert tied(plan, done, ["a", "b"]) == ([], frozenset())


def test_no_more_sentinels_are_added_than_there_is_left_to_do():
    added, _ = tied(planned(1), [], [f"gpu-{i}" for i in range(8)])

    assert len(added) == 1


def test_gpus_of_several_products_begin_with_a_sentinel_of_their_own_plan():
    plans = [
        replace(trial, device_name=name).beside_others()
        for name in ("NVIDIA H200", "NVIDIA A40")
        for trial in planned(4)
    ]
    products = {"a": "NVIDIA H200", "b": "NVIDIA A40", "c": "NVIDIA A40", "d": "NVIDIA A40"}

    added, untied = ties(plans, plans, [], products)

    assert untied == products.keys()
    assert [trial.device_name for trial in added] == ["NVIDIA A40"]
    assert added[0].name.startswith("a40-sentinel-default")
    assert added[0].name not in {trial.name for trial in plans}
