"""What Ray Tune keeps of a trial that is over."""

import json

import pytest
from ray.tune.experiment import Trial

from joulelab_actors.tune.experiment import LeanTrials

RESULT = {f"figure_{number}": float(number) for number in range(10)} | {"training_iteration": 1}


@pytest.fixture
def trial():
    trial = Trial("followed", stub=True)
    trial.update_last_result(RESULT)
    return trial


def test_no_room_is_kept_for_results_that_will_never_come(trial):
    """Tune's process once took 45 kB for each trial, most of it for windows over one value."""
    full_b = len(trial.run_metadata.get_json_state())

    LeanTrials().on_trial_complete(1, [trial], trial)

    trial.run_metadata.invalidate_cache()
    assert trial.metric_n_steps == {}
    assert len(trial.run_metadata.get_json_state()) < 0.6 * full_b


def test_what_tune_compares_trials_by_is_left(trial):
    LeanTrials().on_trial_complete(1, [trial], trial)

    kept = json.loads(trial.run_metadata.get_json_state())
    assert trial.last_result["figure_7"] == 7.0
    for scope in ("last", "avg", "min", "max", "last-5-avg", "last-10-avg"):
        assert kept["metric_analysis"]["figure_7"][scope] == 7.0
