"""What Ray Tune keeps of a trial that is over, and of an experiment that was cut off."""

import json
import logging
from types import SimpleNamespace

import pytest
from ray.tune.experiment import Trial

from joulelab.objectives import EDP
from joulelab_actors.tune.experiment import LeanTrials, Steering, _cut_off

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


TRIALS = [{"status": "TERMINATED", "trial_id": "a"}, {"status": "RUNNING", "trial_id": "b"}]


def snapshot(folder, trials, *, has_ended=False):
    state = {"trial_data": [[json.dumps(trial), "{}"] for trial in trials]}
    (folder / "experiment_state-1.json").write_text(json.dumps(state))
    (folder / "searcher-state-1.pkl").write_text(json.dumps({"has_ended": has_ended}))


def test_an_experiment_that_was_cut_off_is_restored_with_its_trials(tmp_path):
    snapshot(tmp_path, TRIALS)

    assert _cut_off(tmp_path) == TRIALS


def test_tune_warns_of_no_trial_that_an_interrupted_search_had_under_way(
    tmp_path, monkeypatch, caplog
):
    """Two FileNotFoundErrors stood above the answer, of a table that nobody reads."""
    table = logging.getLogger("ray.tune.analysis.experiment_analysis")
    fit = SimpleNamespace(fit=lambda: table.warning("Failed to fetch metrics for 2 trial(s)"))
    monkeypatch.setattr(Steering, "_tuner", lambda *_: fit)
    queue = SimpleNamespace(error=None, study="s", close=lambda: None)

    Steering(folder=tmp_path, objective=EDP, num_gpus=1)._fit(queue)

    assert queue.error is None
    assert not caplog.records
    assert table.isEnabledFor(logging.WARNING)


def test_of_several_lives_the_last_counts(tmp_path):
    snapshot(tmp_path, TRIALS[:1])
    later = tmp_path / "experiment_state-2.json"
    later.write_text(json.dumps({"trial_data": [[json.dumps(TRIALS[1]), "{}"]]}))

    assert _cut_off(tmp_path) == TRIALS[1:]


@pytest.mark.parametrize("file", ["experiment_state-1.json", "searcher-state-1.pkl"])
@pytest.mark.parametrize("num_b", [0, 1, 15])
def test_one_of_whose_snapshot_half_is_left_begins_anew(tmp_path, file, num_b):
    snapshot(tmp_path, TRIALS)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:num_b])

    assert _cut_off(tmp_path) is None


def test_one_that_knew_of_no_trial_or_had_ended_begins_anew(tmp_path):
    assert _cut_off(tmp_path) is None
    snapshot(tmp_path, [])
    assert _cut_off(tmp_path) is None
    snapshot(tmp_path, TRIALS, has_ended=True)
    assert _cut_off(tmp_path) is None
