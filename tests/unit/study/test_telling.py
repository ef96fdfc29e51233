"""How far a study is, as whoever watches reads it."""

from dataclasses import replace

import pytest
from actor_fixtures import trial

from joulelab.errors import TrackingError
from joulelab.study.events import (
    AttemptFailed,
    Delivering,
    DeviceQuarantined,
    StudyStarted,
    TrialMeasured,
    TrialStarted,
)
from joulelab.study.telling import MOST_RUNNING, StateKeeper
from joulelab.tracking.study import STATE, RunningTrial, Trouble, read_state

STARTED = StudyStarted(num_trials=12, num_skipped=4, uuids=("GPU-a", "GPU-b"))


@pytest.fixture
def times():
    return iter(range(100, 200))


@pytest.fixture
def keeper(tmp_path, times):
    return StateKeeper("sweep", tmp_path, clock=lambda: float(next(times)))


def measured(asked, uuid="GPU-a", *, retried=False):
    return TrialMeasured(
        trial=asked, uuid=uuid, records=(), writer="w", between_s=None, retried=retried
    )


def failed(asked, uuid="GPU-a", *, retried=False):
    return AttemptFailed(
        trial=asked, uuid=uuid, died=True, detail="It died.\nTraceback", retried=retried
    )


def test_each_event_shows_at_once(keeper, tmp_path):
    keeper(STARTED)
    first = read_state(tmp_path)
    keeper(TrialStarted(trial=trial(990), uuid="GPU-a"))
    keeper(TrialStarted(trial=trial(810), uuid="GPU-b"))
    second = read_state(tmp_path)
    keeper(measured(trial(990)))
    third = read_state(tmp_path)

    assert (first.num_trials, first.num_done, first.running) == (12, 4, ())
    assert [(each.uuid, each.trial) for each in second.running] == [
        ("GPU-a", "990MHz-r0"),
        ("GPU-b", "810MHz-r0"),
    ]
    assert (third.num_done, [each.uuid for each in third.running]) == (5, ["GPU-b"])
    assert first.updated_unix_s < second.updated_unix_s < third.updated_unix_s


def test_with_many_gpus_what_they_do_shows_once_a_second(tmp_path):
    """With 1,024 the driver wrote for 13 ms at each event, and there are a hundred a second."""
    now_s = [100.0]
    keeper = StateKeeper("sweep", tmp_path, clock=lambda: now_s[0])
    for number in range(MOST_RUNNING + 2):
        keeper(TrialStarted(trial=trial(990), uuid=f"GPU-{number}"))
    first = read_state(tmp_path)
    now_s[0] += 1.0
    keeper(TrialStarted(trial=trial(990), uuid="GPU-0"))
    second = read_state(tmp_path)
    keeper.close()

    assert len(first.running) == MOST_RUNNING
    assert len(second.running) == MOST_RUNNING + 2
    assert read_state(tmp_path).running == ()


def test_what_is_tried_again_is_not_done(keeper, tmp_path):
    keeper(STARTED)
    keeper(measured(trial(990), retried=True))
    keeper(failed(trial(810), retried=True))
    retried = read_state(tmp_path)
    keeper(failed(trial(810)))
    given_up = read_state(tmp_path)

    assert (retried.num_done, retried.num_retries, retried.failed) == (4, 2, ())
    assert (given_up.num_done, given_up.num_retries) == (5, 2)
    assert [each.what for each in given_up.failed] == ["810MHz-r0"]
    assert given_up.failed[0].detail.startswith("It died.")


def test_a_gpu_out_of_service_measures_nothing(keeper, tmp_path):
    keeper(TrialStarted(trial=trial(990), uuid="GPU-a"))
    keeper(DeviceQuarantined(uuid="GPU-a", detail="is lost"))

    state = read_state(tmp_path)

    assert state.running == ()
    assert state.out_of_service == (Trouble(what="GPU-a", detail="is lost"),)


def test_the_end_leaves_nothing_running(keeper, tmp_path):
    keeper(STARTED)
    keeper(TrialStarted(trial=trial(990), uuid="GPU-a"))
    keeper.close()

    assert read_state(tmp_path).running == ()


def test_what_does_not_change_it_is_passed_on_and_not_written(tmp_path):
    heard = []
    keeper = StateKeeper("sweep", tmp_path, heard.append)

    keeper(Delivering(num_left=3))

    assert heard == [Delivering(num_left=3)]
    assert read_state(tmp_path) is None


def test_a_state_that_cannot_be_written_ends_no_study(tmp_path, caplog):
    heard = []
    keeper = StateKeeper("sweep", tmp_path / "file", heard.append)
    (tmp_path / "file").write_text("in the way")

    keeper(STARTED)
    keeper(replace(STARTED, num_skipped=5))

    assert len(heard) == 2
    assert len([r for r in caplog.records if "cannot see" in r.message]) == 1


def test_a_broken_state_is_told(tmp_path):
    (tmp_path / STATE).write_text('{"study": 1}')

    with pytest.raises(TrackingError, match="does not tell how far"):
        read_state(tmp_path)


def test_a_running_trial_has_its_time(keeper):
    keeper(TrialStarted(trial=trial(990), uuid="GPU-a"))

    (running,) = keeper.state.running
    assert running == RunningTrial(uuid="GPU-a", trial="990MHz-r0", since_unix_s=101.0)
