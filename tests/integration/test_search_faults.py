"""Faults during searches: what dies, fills up or cannot be reached, and what is left then."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm
from scripted_strategy import Scripted

from joulelab.errors import TrackingError
from joulelab.search.answer import answer
from joulelab.search.evidence import Problem
from joulelab.search.goal import goal_of
from joulelab.search.race import Race
from joulelab.search.space import SearchSpace
from joulelab.search.strategies.model_guided import ModelGuided
from joulelab.tracking.base import embedded_uri
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab.tracking.store import ResultStore
from joulelab.tracking.sync import deliver
from joulelab_actors.events import (
    StudyStarted,
    TrackingDown,
    TrialMeasured,
    TrialStarted,
    TuneBehind,
)
from joulelab_actors.placement import simulated_sites
from joulelab_actors.search.budget import Budget
from joulelab_actors.search.desk import Sentinel
from joulelab_actors.search.run import run_search
from joulelab_actors.session import NAMESPACE

LONG = replace(QUICK, window_s=30.0, min_windows=10, limit_s=600.0)
CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]


@pytest.fixture
def search(cluster, tmp_path, guard_socket):
    """Run a search on simulated GPUs of the cluster; returns its summary and its store."""

    def run(strategy, *, num_gpus=2, sites=None, procedure=QUICK, **options):
        summary = run_search(
            strategy,
            study="test",
            sites=sites or simulated_sites("h200_sxm", num_gpus, str(tmp_path / "driver")),
            results_dir=tmp_path / "results",
            procedure=procedure,
            guard_socket=guard_socket,
            **options,
        )
        return summary, ResultStore(tmp_path / "results")

    return run


def pid_of(uuid):
    actor = ray.get_actor(f"joulelab:{uuid}", namespace=NAMESPACE)
    return ray.get(actor.status.remote()).pid


def race_of_model():
    problem = Problem(space=SearchSpace("gemm", {"sm_clock_mhz": CLOCKS_MHZ}), goal=goal_of("edp"))
    return Race(problem, ModelGuided(problem)), problem.space.baseline


def valid_trials(store):
    return Counter(m.trial for m in store.read() if m.valid)


def test_a_search_whose_actor_is_killed_tries_again_and_has_its_answer(search):
    killed = []

    def kill_third(event):
        if isinstance(event, TrialStarted) and event.trial.name.startswith("00002") and not killed:
            killed.append(event.trial.name)
            os.kill(pid_of(event.uuid), signal.SIGKILL)

    strategy, baseline = race_of_model()

    summary, store = search(
        strategy,
        procedure=LONG,
        budget=Budget(num_trials=8),
        sentinel=Sentinel(configuration=baseline),
        on_event=kill_third,
    )

    assert sorted(m.attempt for m in store.read() if m.trial == killed[0]) == [0, 1]
    assert summary.study.num_retries >= 1
    assert max(valid_trials(store).values()) == 1
    found = answer(strategy.evidence, spent_j=summary.energy_j)
    assert found.best.configuration in found.standing.members


def test_a_search_goes_on_without_tunes_process_and_says_so(search):
    def kill_tune(event):
        if isinstance(event, TrialMeasured):
            signal_tune(signal.SIGKILL)

    summary, store = search(Scripted(CANDIDATES * 2), on_event=kill_tune)

    assert summary.study.complete
    assert len(valid_trials(store)) == 2 * len(CANDIDATES)
    assert "Ray Tune failed" in summary.tune_trouble


def test_a_search_does_not_wait_for_a_tune_that_stands_still(search, monkeypatch):
    monkeypatch.setattr("joulelab_actors.search.tune_link.STALL_S", 3.0)
    monkeypatch.setattr("joulelab_actors.search.tune_link.QUIET_S", 0.0)
    stopped, behind = [], []

    def stop_tune(event):
        if isinstance(event, TrialMeasured) and not stopped:
            stopped.extend(signal_tune(signal.SIGSTOP))
        if isinstance(event, TuneBehind):
            behind.append(event)

    try:
        summary, store = search(Scripted(CANDIDATES), on_event=stop_tune)
    finally:
        for process in stopped:
            process.kill()

    assert len(stopped) == 1
    assert len(valid_trials(store)) == len(CANDIDATES)
    assert "Ray Tune stood still for 3 s" in summary.tune_trouble
    assert not behind  # a process that answers nothing says nothing of its backlog


def test_the_user_is_told_that_a_search_waits_for_tune(search, monkeypatch):
    monkeypatch.setattr("joulelab_actors.search.tune_link.QUIET_S", 0.0)
    behind = []

    def look(event):
        if isinstance(event, TuneBehind):
            behind.append(event.num_left)

    summary, _ = search(Scripted(CANDIDATES), on_event=look)

    assert summary.tune_trouble is None
    assert behind == sorted(behind, reverse=True)
    assert 0 < behind[0] <= len(CANDIDATES)


def signal_tune(number):
    """Send a signal to Tune's process of the search that runs; returns it."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        title = (process.info["cmdline"] or [""])[0]
        if title.startswith("ray::TuneActor") and _is_ours(process):
            process.send_signal(number)
            found.append(process)
    return found


def _is_ours(process):
    with suppress(psutil.Error):
        return psutil.Process() in process.parents()
    return False


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
def test_a_search_survives_a_locked_mlflow_and_a_resumed_one_delivers_each_trial_once(
    search, tmp_path
):
    uri = embedded_uri(tmp_path)
    search(Scripted(CANDIDATES), budget=Budget(num_trials=1), tracking_uri=uri)
    lock = sqlite3.connect(tmp_path / "mlflow.db")
    lock.execute("BEGIN EXCLUSIVE")
    events = []

    during, store = search(
        Scripted(CANDIDATES),
        budget=Budget(num_trials=3),
        tracking_uri=uri,
        on_event=events.append,
    )
    lock.rollback()
    lock.close()
    after, _ = search(Scripted(CANDIDATES), tracking_uri=uri)

    assert during.study.delivery.num_left == 2
    assert any(isinstance(event, TrackingDown) for event in events)
    assert (after.study.delivery.num_delivered, after.study.delivery.num_left) == (4, 0)
    assert deliver(store, MlflowTracker(uri)).num_delivered == 0
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        nested = database.execute(
            "SELECT t.value, p.value FROM tags t JOIN tags p ON p.run_uuid = t.run_uuid "
            "WHERE t.key = 'joulelab.measurement_id' AND p.key = 'mlflow.parentRunId'"
        ).fetchall()
    assert sorted(id_ for id_, _ in nested) == sorted(m.measurement_id for m in store.read())
    assert len({parent for _, parent in nested}) == 1


def test_a_full_disk_ends_a_search_with_a_message_and_it_goes_on_once_there_is_room(search):
    """The file system refuses what is longer than a limit, as a full one refuses anything."""

    def fill_up(event):
        if isinstance(event, TrialMeasured):
            resource.prlimit(pid_of(event.uuid), resource.RLIMIT_FSIZE, (100, 100))

    with pytest.raises(TrackingError, match="Cannot"):
        search(Scripted(CANDIDATES), num_gpus=1, procedure=LONG, on_event=fill_up)
    strategy = Scripted(CANDIDATES)
    summary, store = search(strategy, num_gpus=1)

    assert 1 <= summary.study.num_skipped < len(CANDIDATES)
    assert summary.study.complete
    assert sorted(valid_trials(store).values()) == [1] * len(CANDIDATES)
    assert Counter(outcome.candidate for outcome in strategy.told) == Counter(CANDIDATES)


@pytest.fixture
def other_node(cluster, short_folder):
    """A node of the cluster with a process tree of its own; returns its id and how it dies."""
    known = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    started = subprocess.Popen(
        [Path(sys.executable).with_name("ray"), "start", f"--address={cluster}", "--num-cpus=1",
         f"--object-store-memory={100 * 2**20}", "--block"],
        env=os.environ | {"RAY_TMPDIR": str(short_folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (new := {n["NodeID"] for n in ray.nodes() if n["Alive"]} - known):
        assert started.poll() is None
        time.sleep(0.2)

    def vanish():
        for process in psutil.Process(started.pid).children(recursive=True):
            if process.name() == "raylet":
                process.kill()

    yield next(iter(new)), vanish
    vanish()
    started.terminate()
    started.wait()
    while new <= {node["NodeID"] for node in ray.nodes() if node["Alive"]}:
        time.sleep(0.2)


@pytest.mark.slow
def test_a_search_goes_on_when_a_node_vanishes(search, other_node, tmp_path):
    node_id, vanish = other_node
    sites = simulated_sites("h200_sxm", 4, str(tmp_path / "driver"))
    [there] = [site for site in sites if site.node_id == node_id]
    here = next(site for site in sites if site.node_id != node_id)
    gone = []

    def kill_node(event):
        if isinstance(event, TrialStarted) and event.uuid == there.uuid and not gone:
            gone.append(event.trial.name)
            vanish()

    strategy = Scripted(CANDIDATES * 2)

    summary, store = search(strategy, sites=[there, here], procedure=LONG, on_event=kill_node)

    assert gone
    assert summary.study.complete
    assert Counter(o.candidate for o in strategy.told) == Counter(CANDIDATES * 2)
    assert all(outcome.figures for outcome in strategy.told)
    assert valid_trials(store)[gone[0]] == 1


@pytest.mark.slow
def test_gpus_are_found_right_after_a_node_vanished(other_node, tmp_path):
    node_id, vanish = other_node
    vanish()

    sites = simulated_sites("h200_sxm", 8, str(tmp_path / "driver"))

    assert len({site.uuid for site in sites}) == 8
    assert node_id not in {site.node_id for site in sites}


def test_budgets_end_a_search_within_a_trial_and_a_larger_one_lets_it_go_on(search):
    many = CANDIDATES * 20

    first, store = search(Scripted(many), num_gpus=1, budget=Budget(num_trials=3))
    one_j = first.energy_j / 3
    bound_j = first.energy_j + 2.5 * one_j
    second, _ = search(Scripted(many), num_gpus=1, budget=Budget(energy_j=bound_j))
    begun_s, start_s = [], time.monotonic()

    def look(event):
        if isinstance(event, TrialStarted):
            begun_s.append(time.monotonic() - start_s)
        if isinstance(event, StudyStarted):
            begun_s[:] = [time.monotonic() - start_s]

    third, _ = search(
        Scripted(many), num_gpus=1, procedure=LONG, budget=Budget(wall_s=10.0), on_event=look
    )

    assert first.stopped_by == "the budget of 3 trials"
    assert (first.study.num_valid, second.study.num_skipped) == (3, 3)
    assert second.stopped_by == f"the budget of {bound_j:g} J"
    assert bound_j - 2 * one_j < second.energy_j < bound_j + one_j
    assert third.stopped_by == "the budget of 10 s"
    assert third.study.num_skipped == 3 + second.study.num_valid
    assert begun_s[-1] - begun_s[0] < 10.0 + 2.0
    assert len(valid_trials(store)) == third.study.num_skipped + third.study.num_valid
