"""A driver that is killed, and a benchmark that kills everything."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
import ray
from actor_fixtures import actor_row, trials
from ray.exceptions import ObjectLostError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from waiting import until

from joulelab.devices.simulated import DriverStore
from joulelab.study.events import AttemptFailed, TrialStarted
from joulelab.study.worker import Report
from joulelab_actors.gpu_actor import Member

ROOT = Path(__file__).parents[2]

DRIVER = """
import sys
from pathlib import Path
from actor_fixtures import QUICK, trials
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import connected
from joulelab.study.run import run_trials
from joulelab_actors.laboratory import Laboratory

folder, socket = Path(sys.argv[1]), Path(sys.argv[2])
with connected():
    lab = Laboratory(procedure=QUICK, guard_socket=socket, tracking_uri="none")
    setup = lab.setup(
        simulated_sites("h200_sxm", 2, str(folder / "driver")),
        folder / "results",
        (),
        settings=None,
        on_event=lambda event: print(type(event).__name__, flush=True),
    )
    run_trials(trials(repeats=4), setup)
"""


def test_a_killed_driver_leaves_no_clock_locked_and_its_study_is_resumed(
    study, tmp_path, kill_driver
):
    kill_driver(DRIVER)

    summary, store = study(trials(repeats=4))

    valid = Counter(m.trial for m in store.read() if m.valid)
    assert summary.num_skipped >= 10
    assert summary.complete
    assert valid == Counter(t.name for t in trials(repeats=4))
    assert DriverStore(tmp_path / "driver").locked_uuids() == ()


def test_a_trial_that_is_given_to_an_actor_that_has_just_died_is_measured_once(study):
    """Ray keeps a call until the actor is back; the driver plans the trial again meanwhile."""
    killed = []

    def kill_first(event):
        if isinstance(event, TrialStarted) and not killed:  # the next one is given to it yet
            killed.append(psutil.Process(actor_row(event.uuid)["Pid"]))
            killed[0].kill()
            killed[0].wait(60)
            until(lambda: actor_row(event.uuid)["NumRestarts"])

    summary, store = study(trials(repeats=3), on_event=kill_first)

    assert killed
    assert summary.complete
    assert Counter(m.trial for m in store.read() if m.valid) == Counter(
        t.name for t in trials(repeats=3)
    )


def check_all_were_measured_once(store, asked):
    valid = Counter(m.trial for m in store.read() if m.valid)
    assert valid == Counter(trial.name for trial in asked)


def test_a_trial_that_ray_cannot_place_is_given_again(study, monkeypatch):
    """As on a node that was cut off; every trial that was sent there was given up."""
    nowhere = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    give, cut = Member.give, []

    def gives(member, trial):
        if len(cut) == 2:
            give(member, trial)
            return
        ghost = ray.remote(DriverStore).options(scheduling_strategy=nowhere).remote("nowhere")
        cut.append(ghost)
        member.work.append((ghost.locked_uuids.remote(), trial))

    monkeypatch.setattr(Member, "give", gives)
    failed = []

    def note(event):
        if isinstance(event, AttemptFailed):
            failed.append(event)

    summary, store = study(trials(repeats=3), on_event=note)

    assert [event.retried for event in failed] == [True, True]
    assert summary.complete
    check_all_were_measured_once(store, trials(repeats=3))


def test_a_result_that_is_lost_on_its_way_is_taken_from_the_store(study, monkeypatch):
    get, lost = ray.get, []

    def gets(ref, **options):
        result = get(ref, **options)
        if isinstance(result, Report) and not lost:
            lost.append(result)
            raise ObjectLostError(ref.hex(), "", "")
        return result

    monkeypatch.setattr(ray, "get", gets)

    summary, store = study(trials(repeats=1))

    assert lost
    assert summary.complete
    check_all_were_measured_once(store, trials(repeats=1))


@pytest.mark.slow
def test_random_kills_lose_nothing_and_leave_no_clock_locked():
    command = [sys.executable, str(ROOT / "benchmarks" / "kill_study.py"), "--kills", "4"]

    done = subprocess.run(
        [*command, "--every", "4", "--num-gpus", "2"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
