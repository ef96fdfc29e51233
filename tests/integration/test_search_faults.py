"""Faults during searches: what dies, fills up or cannot be reached, and what is left then."""

import compileall
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray
from actor_fixtures import CLOCKS_MHZ, QUICK, actor_row, gemm
from scripted_strategy import Scripted

import joulelab
from joulelab.errors import ConfigError, DeviceError, TrackingError
from joulelab.study.budget import Budget
from joulelab.study.events import TrackingDown, TrialMeasured, TrialStarted
from joulelab.tracking.delivery import deliver
from joulelab.tracking.mlflow_tracker import MlflowTracker
from joulelab_actors.placement import simulated_sites
from joulelab_actors.tune import experiment

LONG = replace(QUICK, window_s=30.0, min_windows=10, limit_s=600.0)
CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]


def pid_of(uuid):
    return actor_row(uuid)["Pid"]


def pids_of_trials():
    """Return the processes of Tune's trials, as Ray knows them.

    They call themselves after the trainable while they start, and otherwise later.
    """
    return [
        actor["Pid"]
        for actor in ray._private.state.actors().values()
        if actor["State"] == "ALIVE" and actor["ActorClassName"].endswith("ResourceTrainable")
    ]


def valid_trials(store):
    return Counter(m.trial for m in store.read() if m.valid)


def test_a_search_goes_on_when_its_actor_and_tunes_trials_die_and_measures_nothing_twice(search):
    killed = {}

    def kill(event):
        if not isinstance(event, TrialStarted):
            return
        if not killed.get("trials"):  # the first trials start before Tune has processes
            killed["trials"] = pids_of_trials()
            for pid in killed["trials"]:
                os.kill(pid, signal.SIGKILL)
        if "actor" not in killed and event.trial.name.startswith("00002"):
            killed["actor"] = event.trial.name
            os.kill(pid_of(event.uuid), signal.SIGKILL)

    strategy = Scripted(CANDIDATES)

    summary, store = search(strategy, procedure=LONG, on_event=kill)

    assert killed["trials"]
    assert sorted(m.attempt for m in store.read() if m.trial == killed["actor"]) == [0, 1]
    assert summary.study.num_retries >= 1
    assert summary.study.complete
    assert sorted(valid_trials(store).values()) == [1] * len(CANDIDATES)
    assert Counter(outcome.candidate for outcome in strategy.told) == Counter(CANDIDATES)
    assert all(outcome.figures for outcome in strategy.told)


def test_what_fails_or_hangs_in_tune_ends_the_search_with_a_message_and_it_goes_on(
    search, monkeypatch
):
    """Before Tune starts anything, and once all is measured: a search waited for ever."""
    hangs, waited = threading.Event(), []

    def fail(tuner):
        raise RuntimeError("no luck")

    def hang(*arguments, **how):
        waited.append(how)
        hangs.wait(120)

    def hang_when_measured(*arguments, **how):
        """Hang, and be waited for from now on: trials may take 5 s to start on a busy machine."""
        experiment._queues["test"].turnover.pulse = experiment.Pulse(5.0)
        hang(*arguments, **how)

    def end_with(complaint):
        with pytest.raises(DeviceError, match=rf"{complaint}.* --study test to go on"):
            search(Scripted(CANDIDATES))

    with monkeypatch.context() as patch:
        for name, value in {"MOST_IDLE_S": 5.0, "END_S": 1.0}.items():
            patch.setattr(experiment, name, value)
        with monkeypatch.context() as at_start:
            at_start.setattr("ray.tune.Tuner.fit", fail)
            end_with("Tune failed: no luck")
            at_start.setattr("ray.tune.Tuner.fit", hang)
            end_with("within 5 s: it hangs")
        assert len(waited) == 1
        patch.setattr(experiment, "MOST_IDLE_S", 600.0)
        patch.setattr(experiment.QueueSearcher, "on_trial_complete", hang_when_measured)
        end_with("within 5 s: it hangs")
    assert len(waited) > 1
    hangs.set()

    summary, store = search(Scripted(CANDIDATES))

    assert summary.study.complete
    assert sorted(valid_trials(store).values()) == [1] * len(CANDIDATES)


def test_what_a_strategy_may_not_ask_for_ends_the_search_with_what_is_wrong(search):
    with pytest.raises(ConfigError, match="one of the device's 110 clocks, got 1000"):
        search(Scripted([gemm(990), gemm(1000)]))


@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")
def test_a_search_survives_a_locked_mlflow_and_a_resumed_one_delivers_each_trial_once(
    search, tmp_path, store_uri
):
    lock = sqlite3.connect(tmp_path / "mlflow.db")
    lock.execute("BEGIN EXCLUSIVE")
    events = []

    during, store = search(
        Scripted(CANDIDATES),
        budget=Budget(num_trials=3),
        tracking_uri=store_uri,
        on_event=events.append,
    )
    lock.rollback()
    lock.close()
    after, _ = search(Scripted(CANDIDATES), tracking_uri=store_uri)

    assert during.study.delivery.num_left == 3
    assert any(isinstance(event, TrackingDown) for event in events)
    assert (after.study.delivery.num_delivered, after.study.delivery.num_left) == (5, 0)
    assert deliver(store, MlflowTracker(store_uri)).num_delivered == 0
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        nested = database.execute(
            "SELECT t.value, p.value FROM tags t JOIN tags p ON p.run_uuid = t.run_uuid "
            "WHERE t.key = 'joulelab.measurement_id' AND p.key = 'mlflow.parentRunId'"
        ).fetchall()
    assert sorted(id_ for id_, _ in nested) == sorted(m.measurement_id for m in store.read())
    assert len({parent for _, parent in nested}) == 1


def test_a_full_disk_ends_a_search_with_a_message_and_it_goes_on_once_there_is_room(search):
    """The file system refuses what is longer than a limit, as a full one refuses anything."""
    # Python would keep what is cut off of a module that the actor compiles then.
    compileall.compile_dir(Path(joulelab.__file__).parent, quiet=2)

    def fill_up(event):
        if isinstance(event, TrialMeasured):
            resource.prlimit(pid_of(event.uuid), resource.RLIMIT_FSIZE, (100, 100))

    with pytest.raises(TrackingError, match="Cannot"):
        search(Scripted(CANDIDATES), procedure=LONG, on_event=fill_up)
    strategy = Scripted(CANDIDATES)
    summary, store = search(strategy)

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
         "--include-log-monitor=false", f"--object-store-memory={100 * 2**20}", "--block"],
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
def test_a_search_goes_on_when_a_node_vanishes_and_others_look_for_gpus_elsewhere(
    search, other_node, tmp_path
):
    node_id, vanish = other_node
    sites = simulated_sites("h200_sxm", 4, str(tmp_path / "driver"))
    [there] = [site for site in sites if site.node_id == node_id]
    here = next(site for site in sites if site.node_id != node_id)
    gone, found = [], []

    def kill_node(event):
        if isinstance(event, TrialStarted) and event.uuid == there.uuid and not gone:
            gone.append(event.trial.name)
            vanish()
            found.extend(simulated_sites("h200_sxm", 8, str(tmp_path / "others")))

    strategy = Scripted(CANDIDATES)

    summary, store = search(strategy, sites=[there, here], procedure=LONG, on_event=kill_node)

    assert gone
    assert len({site.uuid for site in found}) == 8
    assert node_id not in {site.node_id for site in found}
    assert summary.study.complete
    assert Counter(o.candidate for o in strategy.told) == Counter(CANDIDATES)
    assert all(outcome.figures for outcome in strategy.told)
    assert valid_trials(store)[gone[0]] == 1
