"""Time as a dependency: the machine's clock, or a virtual one that jumps.

Whatever must happen every so often while a program runs is registered with
:meth:`Clock.every`. On the machine's clock that is a background thread; on a virtual clock it
is an event that fires as time jumps past it. The sampler is therefore the same code on a real
GPU and on a simulated one that runs a thousand times faster.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Protocol

from typing_extensions import override

from joulelab.errors import ConfigError


class Ticker(Protocol):
    """A callback that is being called periodically."""

    def set_period_s(self, period_s: float) -> None:
        """Call every ``period_s`` seconds from now on; the first call is due at once."""
        ...

    def call_at(self, at_s: float) -> None:
        """Make the next call at ``at_s`` instead, at once if that has passed.

        May be said again and again, by the callback itself too; the period goes on from there.
        """
        ...

    def stop(self) -> None:
        """Call no more; returns after a call in progress has ended. Safe to call twice."""
        ...


class Clock(Protocol):
    """A monotonic clock, and work that recurs on it."""

    def now_s(self) -> float:
        """Seconds since an arbitrary origin; never decreases."""
        ...

    def sleep_s(self, duration_s: float) -> None:
        """Block for ``duration_s`` seconds."""
        ...

    def every(self, period_s: float, callback: Callable[[], None]) -> Ticker:
        """Call ``callback`` at once and then every ``period_s`` seconds until stopped.

        An error in the callback ends the ticking; the callback keeps what it wants to tell.
        """
        ...


class MonotonicClock:
    """The machine's monotonic clock. Wall time may jump, so it never times anything."""

    def now_s(self) -> float:
        """Seconds since an arbitrary origin, the same in every process of the machine."""
        return time.monotonic()

    def sleep_s(self, duration_s: float) -> None:
        """Block for ``duration_s`` seconds."""
        time.sleep(duration_s)

    def every(self, period_s: float, callback: Callable[[], None]) -> Ticker:
        """Call ``callback`` from a background thread."""
        return _ThreadTicker(period_s, callback)


class _ThreadTicker:
    def __init__(self, period_s: float, callback: Callable[[], None]) -> None:
        self._period_s = _positive(period_s)
        self._callback = callback
        self._due_s = time.monotonic()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="joulelab-ticker", daemon=True)
        self._thread.start()

    @override
    def __repr__(self) -> str:
        return f"<ticker every {self._period_s} s>"

    def set_period_s(self, period_s: float) -> None:
        self._period_s = _positive(period_s)
        self.call_at(time.monotonic())

    def call_at(self, at_s: float) -> None:
        with self._changed:
            self._due_s = at_s
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while self._comes_due():
            self._callback()

    def _comes_due(self) -> bool:
        """Wait for the next call and plan the one after it; false once stopped."""
        with self._changed:
            while not self._stopped:
                wait_s = self._due_s - time.monotonic()
                if wait_s <= 0:
                    self._due_s = max(self._due_s + self._period_s, time.monotonic())
                    return True
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
            return False


class VirtualClock:
    """A clock that moves only when asked to, and fires what falls due on the way.

    Single-threaded. A callback may call :meth:`sleep_s`: it then sees its own time pass, as a
    background thread would, without moving the time of the code that it interrupts.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._events: list[tuple[float, int, _VirtualTicker]] = []
        self._order = itertools.count()
        self._callback_s: float | None = None

    def now_s(self) -> float:
        """Virtual seconds since the origin."""
        return self._now_s if self._callback_s is None else self._callback_s

    def sleep_s(self, duration_s: float) -> None:
        """Advance by ``duration_s`` seconds, firing callbacks in the order of their times."""
        if not duration_s >= 0:
            raise ConfigError(f"duration_s must not be negative, got {duration_s}.")
        if self._callback_s is not None:
            self._callback_s += duration_s
            return
        stop_s = self._now_s + duration_s
        while self._events and self._events[0][0] <= stop_s:
            due_s, _, ticker = heapq.heappop(self._events)
            self._now_s = max(self._now_s, due_s)
            self._fire(ticker)
        self._now_s = stop_s

    def every(self, period_s: float, callback: Callable[[], None]) -> Ticker:
        """Call ``callback`` now and whenever time passes a multiple of ``period_s``."""
        ticker = _VirtualTicker(self, period_s, callback)
        self._fire(ticker)
        return ticker

    def _schedule(self, ticker: "_VirtualTicker", due_s: float) -> None:
        heapq.heappush(self._events, (due_s, next(self._order), ticker))

    def _unschedule(self, ticker: "_VirtualTicker") -> None:
        self._events = [event for event in self._events if event[2] is not ticker]
        heapq.heapify(self._events)

    def _fire(self, ticker: "_VirtualTicker") -> None:
        outer_s, self._callback_s = self._callback_s, self.now_s()
        ticker.begin(self._callback_s)
        try:
            ticker.callback()
        finally:
            ticker.end(self._callback_s)
            self._callback_s = outer_s
        if not ticker.stopped:
            self._schedule(ticker, ticker.due_s)


class _VirtualTicker:
    def __init__(self, clock: VirtualClock, period_s: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._period_s = _positive(period_s)
        self.callback = callback
        self.stopped = False
        self.due_s = 0.0
        self._busy_until_s = -float("inf")
        self._is_busy = False

    def begin(self, now_s: float) -> None:
        """Note that the callback begins, and when its next call is due."""
        self._is_busy = True
        self.due_s = now_s + self._period_s

    def end(self, now_s: float) -> None:
        """Note that the callback has ended; it cannot be called again before."""
        self._is_busy = False
        self._busy_until_s = now_s
        self.due_s = max(self.due_s, now_s)

    def set_period_s(self, period_s: float) -> None:
        self._period_s = _positive(period_s)
        self.call_at(self._clock.now_s())

    def call_at(self, at_s: float) -> None:
        self.due_s = max(at_s, self._busy_until_s)
        if not self.stopped and not self._is_busy:
            self._clock._unschedule(self)  # noqa: SLF001
            self._clock._schedule(self, self.due_s)  # noqa: SLF001

    def stop(self) -> None:
        self.stopped = True
        self._clock._unschedule(self)  # noqa: SLF001


def _positive(period_s: float) -> float:
    if not period_s > 0:
        raise ConfigError(f"period_s must be positive, got {period_s}.")
    return period_s
