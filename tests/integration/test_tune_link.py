"""Ray Tune's process beside a search: which experiments it makes, and how it ends."""

import json
import signal
import time
from contextlib import suppress

import psutil
import pytest
from actor_fixtures import gemm, trial

from joulelab.search.base import Figures, Outcome
from joulelab_actors.search.tune_link import TuneLink

OUTCOME = Outcome(
    candidate=gemm(990),
    figures=Figures(
        energy_j=2.0, energy_u_j=0.1, time_s=1.0, time_u_s=0.1, power_w=2.0, board="GPU-0"
    ),
)


def wait_for(condition, timeout_s=120.0):
    stop_s = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < stop_s
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_tune_has_as_many_experiments_as_it_needs_for_the_trials(cluster, tmp_path, monkeypatch):
    """A search of 250 trials once ended with an experiment that had none."""
    monkeypatch.setattr("joulelab_actors.search.tune_link.TRIALS_PER_EXPERIMENT", 1)

    with TuneLink(tmp_path) as link:
        link.settle(trial(990), OUTCOME)
        wait_for(lambda: [*tmp_path.glob("*/*/result.json")])
        time.sleep(3.0)  # for one too many, which began within a second

    [state] = tmp_path.glob("*/experiment_state*.json")
    [(_, seen)] = json.loads(state.read_text())["trial_data"]
    assert link.trouble is None
    assert json.loads(seen)["last_result"]["energy_j"] == 2.0
    assert json.loads(seen)["metric_n_steps"] == {}


def abort(link, work):
    """Do some work of a search, then abort it; returns when its end began."""
    begun_s = []
    with suppress(KeyboardInterrupt), link:
        work(link)
        begun_s.append(time.monotonic())
        raise KeyboardInterrupt
    return begun_s[0]


def test_an_aborted_search_does_not_wait_long_for_a_tune_that_stands_still(
    cluster, tmp_path, monkeypatch
):
    """It once waited for 30 s, whether or not anything moved."""
    monkeypatch.setattr("joulelab_actors.search.tune_link.ABORT_STALL_S", 1.0)

    stopped = []

    def stop_tune(link):
        stopped.extend(wait_for(lambda: processes("ray::TuneActor")))
        stopped[0].send_signal(signal.SIGSTOP)

    start_s = abort(TuneLink(tmp_path), stop_tune)

    took_s = time.monotonic() - start_s
    with suppress(psutil.NoSuchProcess):
        stopped[0].kill()
    assert took_s < 10.0


@pytest.mark.slow
def test_what_tune_lacks_of_an_aborted_search_is_taken_over_before_its_end(cluster, tmp_path):
    def tell_five(link):
        for repeat in range(5):
            link.settle(trial(990, repeat), OUTCOME)
        wait_for(lambda: processes("ray::FollowedTrial"))  # its start takes 5 s and more

    abort(TuneLink(tmp_path), tell_five)

    assert len([*tmp_path.glob("*/*/result.json")]) == 5


def processes(title):
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # others end meanwhile
            if process.name().startswith(title):
                found.append(process)
    return found
