"""Read the energy counter beside the ticks that a window's energy rests on.

A read of an H200's counter keeps a core busy for 3 ms and more, and the counter ticks every
100 ms. Only the ticks next to a window's edges matter for its energy. Once the ticks' period is
known, each of those takes two reads, and hardly any are made in between.
"""

import threading
from typing import Protocol

from typing_extensions import override

from joulelab.core.ticks import CounterPolls
from joulelab.devices.base import Device
from joulelab.sampling.background import Background
from joulelab.sampling.tick_tracker import TickTracker

UPKEEP_PERIOD_S = 4.0
"""A tick is timed at least this often, so that a counter that stands still is noticed."""
LEAD_TICKS = 1.2
"""Ticks are timed from so many periods before an expected edge on."""
LEAD_SLACK_S = 0.01
CONTINUOUS_LEAD_S = 0.06
"""The same for a counter that changes all the time."""
UNKNOWN_TICK_S = 0.1
_PATIENCE_S = 2.0
"""How long an edge that no tick follows is waited for."""


class Edges(Protocol):
    """Whoever must know when a window's edge comes, and tell when it has been bracketed."""

    @property
    def margin_s(self) -> float:
        """Time that must be watched before the first edge, and after the last one."""
        ...

    def expect_edge(self, at_s: float) -> None:
        """Say when the next edge is expected; it may be said again and again."""
        ...

    def mark_edge(self, at_s: float) -> None:
        """Say when the edge was."""
        ...

    def bracketed(self, since_s: float) -> bool:
        """Whether enough has been read since ``since_s`` to time an edge at it."""
        ...


class Meter(Background, Edges):
    """Polls the energy counter of a device in the background, on the device's own clock.

    ``tracker`` is what earlier meters of the device have learnt of its ticks.
    """

    def __init__(self, device: Device, *, tracker: TickTracker | None = None) -> None:
        super().__init__(device, "The energy counter could not be read")
        self._polls: list[tuple[float, float, float]] = []
        self._tracker = TickTracker() if tracker is None else tracker
        self._expected_s = float("inf")
        self._edge_s = -float("inf")
        self._upkeep_s = -float("inf")
        self._timed_s = -float("inf")
        self._soon_s = -float("inf")
        self._due_s = -float("inf")
        self._planning = threading.Lock()

    @property
    def tick_s(self) -> float:
        """Time between ticks as known so far; a typical value before any was seen."""
        return self._tracker.period_s or UNKNOWN_TICK_S

    @property
    def known_tick_s(self) -> tuple[float, float] | None:
        """Bounds of the time between ticks; ``None`` before any, and of a continuous counter."""
        return self._tracker.bounds_s

    @property
    def num_polls(self) -> int:
        """Reads of the counter so far."""
        return len(self._polls)

    def start(self) -> None:
        """Poll until :meth:`stop`."""
        self._due_s = self._clock.now_s()
        self._ticker = self._clock.every(UPKEEP_PERIOD_S, self._beat)
        self._plan()

    def polls(self) -> CounterPolls:
        """Return all reads so far."""
        return CounterPolls.of(self._polls.copy())

    @property
    @override
    def margin_s(self) -> float:
        return 0.0

    @override
    def expect_edge(self, at_s: float) -> None:
        self._expected_s = at_s
        if at_s < self._soon_s:  # the only cost to a loop of short units
            self._plan()

    @override
    def mark_edge(self, at_s: float) -> None:
        self._edge_s, self._expected_s = at_s, float("inf")
        self._plan()

    @override
    def bracketed(self, since_s: float) -> bool:
        self.raise_if_failed()
        return self._tracker.num_since(since_s) > 0

    @property
    def _lead_s(self) -> float:
        if self._tracker.is_continuous:
            return CONTINUOUS_LEAD_S
        return LEAD_TICKS * self.tick_s + LEAD_SLACK_S

    @override
    def _act(self, now_s: float) -> None:
        if now_s >= self._due_s:
            before_s, delay_s = self._clock.now_s(), now_s - self._due_s
            energy_j = self._device.read_energy_j()
            poll = (before_s, self._clock.now_s(), energy_j)
            with self._planning:
                self._polls.append(poll)
                self._tracker.add(*poll, delay_s=delay_s)
        self._plan()

    def _plan(self) -> None:
        """Plan the next read; waits for no read in progress."""
        if self._ticker is None:
            return
        with self._planning:
            now_s = self._clock.now_s()
            from_s = self._wanted_from_s(now_s)
            self._soon_s = from_s + self._lead_s - LEAD_SLACK_S / 2
            self._due_s = self._tracker.next_read_s(now_s, from_s)
            self._ticker.call_at(self._due_s)

    def _wanted_from_s(self, now_s: float) -> float:
        """From when on reads are wanted: around edges, and now and then to stay in step."""
        if not self._polls or not self._tracker.is_settled:
            return -float("inf")
        wanted_s = min(self._next_upkeep_s(), self._expected_s - self._lead_s)
        waiting = now_s <= self._edge_s + _PATIENCE_S and not self._tracker.num_since(self._edge_s)
        return min(wanted_s, self._edge_s) if waiting else wanted_s

    def _next_upkeep_s(self) -> float:
        """When to time a tick again, however far the next edge is."""
        timed_s, last_s = self._tracker.timed_s, self._polls[-1][0]
        gave_up = last_s >= self._upkeep_s + 3 * self.tick_s
        if gave_up or timed_s > self._timed_s:
            self._timed_s = timed_s
            wait_s = UPKEEP_PERIOD_S
            while wait_s > 2 * self.tick_s and not self._tracker.is_fresh(last_s + wait_s):
                wait_s /= 2
            self._upkeep_s = last_s + wait_s
        return self._upkeep_s


_LOOK_S = 0.02
_AHEAD_S = 1.0
"""For so long ahead ticks are to be foreseen."""
_LIMIT_S = 4.0
"""A counter that shows no ticks for so long is left to the measurement, which says why."""


def find_ticks(device: Device, tracker: TickTracker) -> float:
    """Poll the counter of ``device`` until ``tracker`` foresees its ticks.

    Returns at once where they are known already, or there is no counter.

    Returns:
        CPU time that it took, in seconds.

    Raises:
        DeviceLostError: If the device has gone.
        MeasurementError: If the counter cannot be read.
    """
    clock = device.clock
    until_s = clock.now_s() + _LIMIT_S
    if tracker.is_settled or not device.capabilities().has_energy_counter:
        return 0.0
    meter = Meter(device, tracker=tracker)
    meter.start()
    try:
        while not _knows(tracker, clock.now_s()) and clock.now_s() < until_s:
            clock.sleep_s(_LOOK_S)
            meter.raise_if_failed()
    finally:
        meter.stop()
    return meter.cpu_s


def _knows(tracker: TickTracker, now_s: float) -> bool:
    return tracker.is_settled and tracker.is_fresh(now_s + _AHEAD_S)
