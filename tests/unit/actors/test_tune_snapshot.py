"""Whether Tune's experiment is restored: what a kill leaves of its snapshot, or nothing."""

import json

import pytest

from joulelab_actors.tune.experiment import _cut_off

TRIALS = [{"status": "TERMINATED", "trial_id": "a"}, {"status": "RUNNING", "trial_id": "b"}]


def snapshot(folder, trials, *, has_ended=False):
    state = {"trial_data": [[json.dumps(trial), "{}"] for trial in trials]}
    (folder / "experiment_state-1.json").write_text(json.dumps(state))
    (folder / "searcher-state-1.pkl").write_text(json.dumps({"has_ended": has_ended}))


def test_an_experiment_that_was_cut_off_is_restored_with_its_trials(tmp_path):
    snapshot(tmp_path, TRIALS)

    assert _cut_off(tmp_path) == TRIALS


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
