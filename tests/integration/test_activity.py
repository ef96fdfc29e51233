"""What actors tell whoever watches their nodes, while they measure and once they are killed."""

import os
import signal

from actor_fixtures import trials
from waiting import until

from joulelab.live.activity import read_activities
from joulelab.study.events import TrialMeasured
from joulelab.tracking.study import read_state


def seen(guard_socket, folder):
    return [each for each in read_activities(guard_socket) if each.folder == str(folder)]


def pids_in(guard_socket, folder):
    return {each.pid for each in seen(guard_socket, folder)}


def test_actors_tell_what_they_measure_and_nothing_once_they_are_gone(
    study, tmp_path, guard_socket
):
    found, states = [], []

    def look(event):
        if isinstance(event, TrialMeasured):
            found.extend(seen(guard_socket, tmp_path / "results"))
            states.append(read_state(tmp_path / "results"))

    summary, store = study(trials(), num_gpus=2, on_event=look)

    by_trial = {m.trial: m for m in store.read()}
    ended = [each.last for each in found if each.last is not None]
    assert summary.complete
    assert {each.study for each in found} == {"test"}
    assert {each.address.uuid for each in found} >= {m.device.uuid for m in store.read()}
    assert {each.pid for each in found}.isdisjoint({os.getpid()})
    assert ended
    for last in ended:
        assert last.energy_per_unit_j == by_trial[last.trial].energy_per_unit_j
    assert [state.num_done for state in states] == [1, 2, 3, 4, 5]
    assert read_state(store.folder).running == ()
    until(lambda: not seen(guard_socket, store.folder))


def test_an_actor_that_is_killed_tells_nothing_until_the_next_one_measures(
    study, tmp_path, guard_socket
):
    killed, after = [], []

    def kill_once(event):
        if not isinstance(event, TrialMeasured):
            return
        current = seen(guard_socket, tmp_path / "results")
        after.extend(each for each in current if killed and each.pid != killed[0].pid)
        if not killed and current:
            killed.append(current[0])
            os.kill(current[0].pid, signal.SIGKILL)
            until(lambda: killed[0].pid not in pids_in(guard_socket, tmp_path / "results"))

    summary, _ = study(trials(), on_event=kill_once)

    assert summary.complete
    assert len(killed) == 1
    assert after
