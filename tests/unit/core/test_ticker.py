import threading
import time

import pytest
from waiting import PATIENCE_S, until

from joulelab.core.clock import MonotonicClock, VirtualClock


class Called:
    """Notes when it is called, and may plan its own next call."""

    def __init__(self, clock, *, busy_s=0.0):
        self.clock, self.busy_s = clock, busy_s
        self.at_s = []
        self.then_s = []
        self.ticker = None

    def __call__(self):
        self.at_s.append(self.clock.now_s())
        self.clock.sleep_s(self.busy_s)
        if self.then_s and self.ticker is not None:
            self.ticker.call_at(self.then_s.pop(0))


def test_the_next_call_can_be_planned_and_the_period_goes_on_from_there():
    clock = VirtualClock()
    called = Called(clock)
    ticker = clock.every(1.0, called)

    ticker.call_at(0.3)
    clock.sleep_s(2.5)

    assert called.at_s == pytest.approx([0.0, 0.3, 1.3, 2.3])


def test_a_callback_can_plan_its_own_next_call():
    clock = VirtualClock()
    called = Called(clock)
    called.ticker = clock.every(1.0, called)
    called.then_s = [1.1, 1.15]

    clock.sleep_s(2.5)

    assert called.at_s == pytest.approx([0.0, 1.0, 1.1, 1.15, 2.15])


def test_a_call_planned_for_a_time_that_has_passed_comes_at_once_but_not_before_the_last_ended():
    clock = VirtualClock()
    called = Called(clock, busy_s=0.4)
    ticker = clock.every(1.0, called)

    ticker.call_at(0.1)
    clock.sleep_s(0.9)

    assert called.at_s == pytest.approx([0.0, 0.4])


def test_a_stopped_ticker_plans_nothing():
    clock = VirtualClock()
    called = Called(clock)
    ticker = clock.every(1.0, called)

    ticker.stop()
    ticker.call_at(0.5)
    clock.sleep_s(3.0)

    assert called.at_s == [0.0]


def test_a_thread_is_woken_for_a_call_planned_earlier_than_its_period():
    clock = MonotonicClock()
    called = Called(clock)
    ticker = clock.every(10 * PATIENCE_S, called)
    until(lambda: called.at_s)

    planned_s = clock.now_s() + 0.05
    ticker.call_at(planned_s)
    until(lambda: len(called.at_s) == 2)
    ticker.stop()

    assert called.at_s[1] >= planned_s


def test_stopping_a_thread_waits_for_the_call_that_is_under_way():
    begun, ended = threading.Event(), threading.Event()

    def call():
        begun.set()
        time.sleep(0.2)
        ended.set()

    ticker = MonotonicClock().every(60.0, call)
    begun.wait()

    ticker.stop()

    assert ended.is_set()


def test_a_thread_that_was_held_up_does_not_make_up_for_the_calls_that_it_missed():
    called = Called(MonotonicClock(), busy_s=0.6)
    ticker = called.clock.every(0.05, called)
    time.sleep(0.1)
    called.busy_s = 0.0

    until(lambda: len(called.at_s) >= 9)
    ticker.stop()

    late = called.at_s[1:9]
    assert late[-1] - late[0] > 5 * 0.05


def test_calls_of_a_thread_are_a_period_apart_and_stop_when_asked():
    called = Called(MonotonicClock())
    ticker = called.clock.every(0.05, called)
    until(lambda: len(called.at_s) >= 4)

    ticker.stop()
    num = len(called.at_s)
    time.sleep(0.12)

    assert called.at_s[3] - called.at_s[0] > 2 * 0.05
    assert len(called.at_s) == num
