"""Searches over a cluster of three nodes: what Tune sees, what is retried, what is resumed."""

import json
import pickle
import shutil
import signal
import time
from collections import Counter
from dataclasses import replace

import pytest
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm
from ray import cloudpickle, tune
from scripted_strategy import Scripted

from joulelab.study.budget import Budget
from joulelab.study.events import StudyStarted, TrialMeasured, TrialStarted
from joulelab_actors.laboratory import SCHEDULED_REPEATS
from joulelab_actors.tune.experiment import NAME
from joulelab_actors.tune.trainable import MeasuredTrial, configuration_of
from joulelab_actors.tune.turnover import TRIALS_PER_GPU

LONG = replace(QUICK, window_s=30.0, min_windows=10, limit_s=600.0)
CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]

DRIVER = """
import sys
from pathlib import Path
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm
from scripted_strategy import Scripted
from joulelab.study.search_queue import Search
from joulelab_actors.placement import simulated_sites
from joulelab.study.run import run_asked
from joulelab_actors.laboratory import Laboratory
from joulelab_actors.session import connected

folder, socket = Path(sys.argv[1]), Path(sys.argv[2])
with connected():
    strategy = Scripted([gemm(clock) for clock in CLOCKS_MHZ] * 4)
    lab = Laboratory(procedure=QUICK, guard_socket=socket, tracking_uri="none")
    setup = lab.setup(
        simulated_sites("h200_sxm", 1, str(folder / "driver")),
        folder / "results",
        (),
        settings=None,
        on_event=lambda event: print(type(event).__name__, flush=True),
    )
    run_asked(Search(study="test", strategy=strategy), setup)
"""


def tune_table(store):
    """Return Tune's own table of a search: its trials' results by configuration and repeat."""
    grid = tune.Tuner.restore(str(store.folder / "tune" / NAME), MeasuredTrial).get_results()
    assert grid.num_errors == 0
    table = {configuration_of(result.config): result.metrics for result in grid}
    assert len(table) == len(grid)
    return table


def test_what_a_strategy_asks_for_is_measured_as_a_trial_of_tunes_and_told_at_once(search):
    """A strategy that waits for an outcome is asked again as soon as it has it."""
    asked, between_s = [gemm(clock) for clock in range(345, 1000, 60)], []
    strategy = Scripted(asked, max_out=1)

    def look(event):
        if isinstance(event, TrialMeasured) and event.between_s is not None:
            between_s.append(event.between_s)

    summary, store = search(strategy, on_event=look)

    measured = {(m.configuration, m.repeat): m for m in store.read()}
    told = {outcome.candidate: outcome.figures for outcome in strategy.told}
    table = tune_table(store)
    assert summary.stopped_by == "the strategy"
    assert summary.study.complete
    assert set(told) == set(asked)
    assert set(table) == set(measured)
    for key, measurement in measured.items():
        figures = told[measurement.configuration]
        assert figures.energy_j == measurement.energy_per_unit_j
        assert figures.board == measurement.device.uuid
        assert table[key]["energy_j"] == figures.energy_j
        assert table[key]["edp"] == pytest.approx(figures.energy_j * figures.time_s)
    assert sorted(between_s)[len(between_s) // 4] < 0.25  # others may wait for a busy machine


def test_a_killed_search_goes_on_where_it_was_and_measures_nothing_twice(search, kill_driver):
    kill_driver(DRIVER, TUNE_GLOBAL_CHECKPOINT_S="1")
    strategy = Scripted(CANDIDATES * 4)

    summary, store = search(strategy)

    valid = Counter(m.configuration for m in store.read() if m.valid)
    assert summary.study.num_skipped >= 10
    assert valid == Counter(CANDIDATES * 4)
    assert len(strategy.told) == len(CANDIDATES) * 4
    assert max(Counter(m.trial for m in store.read() if m.valid).values()) == 1
    assert set(tune_table(store)) == {(m.configuration, m.repeat) for m in store.read()}
    restored = [*store.folder.glob(f"tune/{NAME}/experiment_state-*.json")]
    assert len(restored) == 2  # each life of an experiment of Tune's has its own


def test_under_a_scheduler_a_trial_repeats_what_is_among_the_better(search):
    summary, store = search(Scripted(CANDIDATES), trial_scheduler="asha")

    repeats = Counter(m.configuration for m in store.read())
    iterations = {key[0]: row["training_iteration"] for key, row in tune_table(store).items()}
    assert summary.study.complete
    assert set(repeats) == set(CANDIDATES)
    assert 1 == min(repeats.values()) < max(repeats.values()) <= SCHEDULED_REPEATS
    assert iterations == repeats


@pytest.fixture(scope="module")
def ended(shared_search):
    """The folder of a search that had ended with its budget of three trials, and its summary."""
    folder, search = shared_search
    summary, _ = search(Scripted(CANDIDATES), budget=Budget(num_trials=3))
    return folder, summary


@pytest.fixture
def begun(ended, tmp_path):
    """A copy of that folder in the test's own, where the test goes on."""
    shutil.copytree(ended[0], tmp_path, dirs_exist_ok=True)
    return ended[1]


def test_a_search_that_had_ended_goes_on_until_a_budget_ends_it_within_a_trial(begun, search):
    many = CANDIDATES * 20
    one_j = begun.energy_j / 3
    bound_j = begun.energy_j + 2.5 * one_j
    second, _ = search(Scripted(many), budget=Budget(energy_j=bound_j))
    started_s, begun_s = [], []

    def look(event):
        if isinstance(event, TrialStarted):
            begun_s.append(time.monotonic() - started_s[0])
        if isinstance(event, StudyStarted):
            started_s.append(time.monotonic())

    third, store = search(Scripted(many), procedure=LONG, budget=Budget(wall_s=2.0), on_event=look)

    assert begun.stopped_by == "the budget of 3 trials"
    assert (begun.study.num_valid, second.study.num_skipped) == (3, 3)
    assert second.stopped_by == f"the budget of {bound_j:g} J"
    assert bound_j - 2 * one_j < second.energy_j < bound_j + one_j
    assert third.stopped_by == "the budget of 2 s"
    assert third.study.num_skipped == 3 + second.study.num_valid
    late = [each_s for each_s in begun_s if each_s > 2.0]
    assert len(late) <= TRIALS_PER_GPU  # they were under way by then, and nothing follows them
    assert len(store.read()) == third.study.num_skipped + third.study.num_valid
    assert set(tune_table(store)) == {(m.configuration, m.repeat) for m in store.read()}


def test_what_tunes_snapshot_lacks_it_gets_from_the_store(begun, search, tmp_path):
    """A kill leaves a snapshot that is some seconds old; of half of one, see the unit tests."""
    cut_off(tmp_path / "results" / "tune" / NAME, num_kept=2)

    summary, store = search(Scripted(CANDIDATES))

    assert summary.study.num_skipped == 3
    assert Counter(m.configuration for m in store.read()) == Counter(CANDIDATES)
    assert set(tune_table(store)) == {(m.configuration, m.repeat) for m in store.read()}


def cut_off(experiment, num_kept):
    """Make Tune's experiment one that was killed when it knew of its first trials only."""
    [state], [searcher] = (
        [*experiment.glob(each)] for each in ("experiment_state-*.json", "searcher-state-*.pkl")
    )
    [generator] = experiment.glob("search_gen_state-*.json")
    content, known = json.loads(state.read_text()), json.loads(searcher.read_text())
    content["trial_data"] = content["trial_data"][:num_kept]
    known["has_ended"] = False
    state.write_text(json.dumps(content))
    searcher.write_text(json.dumps(known))
    ended = pickle.loads(generator.read_bytes())
    generator.write_bytes(cloudpickle.dumps(ended | {"finished": False}))


def test_an_interrupted_search_concludes_from_what_it_has_and_goes_on_later(search, heeded):
    reasons, measured = [], []

    def interrupt(event):
        if isinstance(event, TrialMeasured):
            measured.append(event)
            if len(measured) == 3:
                signal.raise_signal(signal.SIGINT)

    first, _ = search(
        Scripted(CANDIDATES * 3),
        on_event=interrupt,
        conclude=lambda store, stopped_by: reasons.append(stopped_by),
    )
    second, store = search(Scripted(CANDIDATES * 3))

    assert reasons == ["an interruption"]
    assert first.study.exit_code == 130
    assert second.study.exit_code == 0
    assert Counter(m.configuration for m in store.read() if m.valid) == Counter(CANDIDATES * 3)
