"""Trials in this process, on one GPU after another."""

import socket
from contextlib import closing
from pathlib import Path

import pytest
from actor_fixtures import QUICK, gemm, simulated_gpus, trial

from joulelab.core.trial import Trial
from joulelab.devices.choice import open_device
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.errors import ConfigError
from joulelab.study.events import AttemptFailed, DeviceQuarantined, TrialMeasured, TrialStarted
from joulelab.study.gpu import StudyGpu
from joulelab.study.pool import LocalPool
from joulelab.study.schedule import TrialSource
from joulelab.study.worker import WorkerSettings


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
