"""What a guard and its watchdog do about each other's deaths, without processes that die."""

import os
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest

from joulelab.errors import ConfigError
from joulelab.guard import daemon, process, server
from joulelab.guard.settings import GuardSettings

FREE, GROWING_S = 5, [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize(
    ("lives_s", "pauses_s"), [(0.5, GROWING_S), (60.0, [])], ids=["quick", "slow"]
)
def test_a_guard_that_keeps_dying_soon_is_started_after_pauses_that_grow(
    settings, monkeypatch, lives_s, pauses_s
):
    """The first five times at once; one that lived for a while always at once."""
    ends = iter([1] * (FREE + len(GROWING_S)) + [daemon._NOT_NEEDED])
    now_s, paused_s = count(0.0, lives_s), []
    clock = SimpleNamespace(monotonic=lambda: next(now_s), sleep=paused_s.append)
    monkeypatch.setattr(daemon, "time", clock)
    monkeypatch.setattr(daemon, "_name_process", lambda name: None)
    monkeypatch.setattr(daemon, "_fork_guard", lambda settings: 1)
    monkeypatch.setattr(daemon, "await_end", lambda pid, heartbeat: next(ends))

    assert daemon.watch_over(settings) == 0
    assert paused_s == pytest.approx(pauses_s)


def test_a_watchdog_that_keeps_dying_soon_is_given_up_after_twenty_more(settings, monkeypatch):
    guard = SimpleNamespace(watchdog_pid=None, watch=lambda *_: None, unwatch=lambda _: None)
    revived = []
    monkeypatch.setattr(process.WatchdogWatch, "_revive", lambda watch: revived.append(watch))

    watch = process.WatchdogWatch(guard, settings, os.getppid())
    for _ in range(20):
        watch._note_death()
    watch.tend()  # the last one could not be started, say
    assert len(revived) == 20 + 1

    watch._note_death()
    watch.tend()
    assert len(revived) == 20 + 1


@pytest.mark.parametrize(("due_s", "slept_s"), [(100.5, 0.5), (99.0, 0.0), (200.0, 5.0)])
def test_on_the_way_out_restoring_is_tried_when_it_is_due_until_the_end(
    monkeypatch, due_s, slept_s
):
    slept, pending = [], ["a device"]
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=slept.append)
    monkeypatch.setattr(server, "time", clock)
    lending = SimpleNamespace(due_s=due_s, retry=pending.clear)

    server.GuardServer.retry_until(SimpleNamespace(pending=pending, _lending=lending), 105.0)

    assert pending == []
    assert slept == [pytest.approx(slept_s)]


def test_a_parent_is_waited_for_as_a_child_is_and_nobody_else():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as child:
        assert daemon._is_kin(child.pid)
        assert daemon._is_kin(os.getppid())
        child.communicate(b"\n")

    assert not daemon._is_kin(child.pid)


@pytest.mark.parametrize("name", ["max_ttl_s", "idle_exit_s"])
def test_a_guard_may_be_short_lived_but_not_without_any_time(tmp_path, name):
    times_s = {"max_ttl_s": 60.0, name: 0.5}
    assert getattr(GuardSettings(socket_path=tmp_path / "s", **times_s), name) == 0.5

    with pytest.raises(ConfigError, match=f"{name} must be positive"):
        GuardSettings(socket_path=tmp_path / "s", **times_s | {name: 0.0})
