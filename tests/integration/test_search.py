"""Searches over a cluster of three nodes: what Tune sees, what is retried, what is resumed."""

import json
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest
import ray
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm
from scripted_strategy import Scripted

from joulelab.tracking.store import ResultStore
from joulelab_actors.events import TrialMeasured, TrialStarted
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.run import run_search
from joulelab_actors.session import NAMESPACE

LONG = replace(QUICK, window_s=30.0, min_windows=10, limit_s=600.0)
CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]

DRIVER = """
import sys
from pathlib import Path
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm
from scripted_strategy import Scripted
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.run import run_search
from joulelab_actors.session import connected

folder, socket = Path(sys.argv[1]), Path(sys.argv[2])
with connected():
    run_search(
        Scripted([gemm(clock) for clock in CLOCKS_MHZ] * 5),
        study="test",
        sites=simulated_sites("h200_sxm", 2, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=QUICK,
        guard_socket=socket,
        on_event=lambda event: print(type(event).__name__, flush=True),
    )
"""


@pytest.fixture
def search(cluster, tmp_path, guard_socket):
    """Run a search on simulated GPUs of the cluster; returns its summary and its store."""

    def run(strategy, *, num_gpus=2, procedure=QUICK, **options):
        summary = run_search(
            strategy,
            study="test",
            sites=simulated_sites("h200_sxm", num_gpus, str(tmp_path / "driver")),
            results_dir=tmp_path / "results",
            procedure=procedure,
            guard_socket=guard_socket,
            **options,
        )
        return summary, ResultStore(tmp_path / "results")

    return run


def tune_results(store):
    lines = [path.read_text() for path in store.folder.glob("tune/*/*/result.json")]
    return {result["config"]["trial"]: result for result in map(json.loads, lines)}


def test_what_a_strategy_asks_for_is_measured_told_and_a_trial_of_tunes(search, monkeypatch):
    monkeypatch.setattr("joulelab_actors.search.tune_link.TRIALS_PER_EXPERIMENT", 3)
    strategy = Scripted(CANDIDATES)

    summary, store = search(strategy)

    measured = {m.trial: m for m in store.read()}
    told = {outcome.candidate: outcome.figures for outcome in strategy.told}
    seen_by_tune = tune_results(store)
    assert summary.tune_trouble is None
    assert summary.stopped_by == "the strategy"
    assert summary.study.complete
    assert set(told) == set(CANDIDATES)
    assert set(seen_by_tune) == set(measured)
    for name, measurement in measured.items():
        figures = told[measurement.configuration]
        assert figures.energy_j == measurement.energy_per_unit_j
        assert figures.board == measurement.device.uuid
        assert seen_by_tune[name]["energy_j"] == figures.energy_j
        clock_mhz = measurement.configuration.point.sm_clock_mhz
        assert seen_by_tune[name]["config"]["sm_clock_mhz"] == clock_mhz


def test_a_killed_search_goes_on_where_it_was_and_measures_nothing_twice(search, kill_driver):
    kill_driver(DRIVER)
    strategy = Scripted(CANDIDATES * 5)

    summary, store = search(strategy)

    valid = Counter(m.configuration for m in store.read() if m.valid)
    assert summary.study.num_skipped >= 10
    assert valid == Counter(CANDIDATES * 5)
    assert len(strategy.told) == len(CANDIDATES) * 5
    assert max(Counter(m.trial for m in store.read() if m.valid).values()) == 1


def test_an_interrupted_search_concludes_from_what_it_has_and_goes_on_later(search, heeded):
    reasons, measured = [], []

    def interrupt(event):
        if isinstance(event, TrialMeasured):
            measured.append(event)
            if len(measured) == 5:
                signal.raise_signal(signal.SIGINT)

    first, _ = search(
        Scripted(CANDIDATES * 5),
        on_event=interrupt,
        conclude=lambda store, stopped_by: reasons.append(stopped_by),
    )
    second, store = search(Scripted(CANDIDATES * 5))

    assert reasons == ["an interruption"]
    assert first.study.exit_code == 130
    assert second.study.exit_code == 0
    assert Counter(m.configuration for m in store.read() if m.valid) == Counter(CANDIDATES * 5)


def test_a_trial_whose_actor_is_killed_is_retried_and_told_once(search):
    killed = []

    def kill_first(event):
        if isinstance(event, TrialStarted) and not killed:
            actor = ray.get_actor(f"joulelab:{event.uuid}", namespace=NAMESPACE)
            os.kill(ray.get(actor.status.remote()).pid, signal.SIGKILL)
            killed.append(event.trial.name)

    strategy = Scripted(CANDIDATES[:2])

    summary, store = search(strategy, procedure=LONG, on_event=kill_first)

    attempts = sorted(m.attempt for m in store.read() if m.trial == killed[0])
    assert attempts == [0, 1]
    assert summary.study.num_retries == 1
    assert Counter(o.candidate for o in strategy.told) == Counter(CANDIDATES[:2])
    assert all(outcome.figures for outcome in strategy.told)


def test_a_strategy_that_waits_for_an_outcome_is_asked_again_as_soon_as_it_has_it(search):
    between_s = []

    def look(event):
        if isinstance(event, TrialMeasured) and event.between_s is not None:
            between_s.append(event.between_s)

    summary, _ = search(Scripted(CANDIDATES * 4, max_out=1), num_gpus=1, on_event=look)

    assert summary.study.num_valid == 20
    assert sorted(between_s)[len(between_s) // 2] < 0.25
