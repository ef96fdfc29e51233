"""What a guard and its watchdog do about each other's deaths, without processes that die."""

import os
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest

from joulelab.guard import daemon, process

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
    server = SimpleNamespace(watchdog_pid=None, watch=lambda *_: None, unwatch=lambda _: None)
    revived = []
    monkeypatch.setattr(process.WatchdogWatch, "_revive", lambda watch: revived.append(watch))

    watch = process.WatchdogWatch(server, settings, os.getppid())
    for _ in range(30):
        watch._note_death()

    assert len(revived) == 20


def test_a_parent_is_waited_for_as_a_child_is_and_nobody_else():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as child:
        assert daemon._is_kin(child.pid)
        assert daemon._is_kin(os.getppid())
        child.communicate(b"\n")

    assert not daemon._is_kin(child.pid)
