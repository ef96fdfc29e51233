"""Watch a device in the background, in bounded memory: power, clocks, temperatures, processes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from joulelab.core.device import Activity, DeviceState, Look
from joulelab.core.ticks import Array
from joulelab.core.trace import PowerTrace, SlowLook
from joulelab.devices.base import ActivityProbe, Device
from joulelab.errors import ConfigError, MeasurementError
from joulelab.sampling.background import Background

logger = logging.getLogger(__name__)

_SAME_S = 1e-3
"""Samples closer than this are one sample, seen in two reads of an overlapping buffer."""


class PowerBuffer:
    """Samples of power in the order of their times, the older half dropped when full."""

    def __init__(self, max_samples: int = 500_000) -> None:
        if max_samples < 2:
            raise ConfigError(f"max_samples must be at least 2, got {max_samples}.")
        self._max_samples = max_samples
        self._chunks: deque[tuple[Array, Array]] = deque()
        self._size = 0
        self._last_s = -np.inf
        self.num_dropped = 0
        """Samples dropped so far to stay within ``max_samples``."""

    def __len__(self) -> int:
        return self._size

    def add(self, t_s: Array, power_w: Array) -> None:
        """Add the samples that are newer than all that came before."""
        new = int(np.searchsorted(t_s, self._last_s + _SAME_S, side="right"))
        if new < t_s.size:
            self._chunks.append((t_s[new:].copy(), power_w[new:].copy()))
            self._size += t_s.size - new
            self._last_s = float(t_s[-1])
        if self._size > self._max_samples:
            t_s, power_w = (np.concatenate(part) for part in zip(*self._chunks, strict=True))
            keep = self._max_samples // 2
            self.num_dropped += t_s.size - keep
            self._chunks = deque([(t_s[-keep:].copy(), power_w[-keep:].copy())])
            self._size = keep

    def trace(self) -> PowerTrace | None:
        """Return all samples that are kept; ``None`` if there are none."""
        if not self._chunks:
            return None
        t_s, power_w = (np.concatenate(part) for part in zip(*self._chunks, strict=True))
        self._chunks = deque([(t_s, power_w)])
        return PowerTrace(t_s=t_s, power_w=power_w)


LOOK_PERIOD_S = 0.2
POLL_PERIOD_S = 0.1
"""Between reads of power where the driver buffers none and no period was asked for."""
SLOW_PERIOD_S = 1.0
"""Between reads of what the driver is slow to tell, and of its buffer of power samples, which
on an H200 wraps after 2.4 s."""
SHORTEST_COUNT_S = 1.5
"""Activities are not counted over less: it takes an H100's driver 3 ms, and its host more."""
SLOWEST_PERIOD_S = 1.0
SLOWEST_CLOSE_LOOK_S = 4.0
"""Bound of the time between reads of what the driver is slow to tell, however much they cost."""
MAX_LOOKS = 50_000
"""Close to three hours of looks; the oldest are dropped after that."""
FIRST_CALLS_S = 2.0
"""A driver's first calls cost more than all later ones, so they are not held against it."""
JUDGED_S = 5.0
"""Over how long sampling is held to its budget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleLog:
    """All that a sampler has seen so far."""

    trace: PowerTrace | None  # power samples; None if there are none
    # Looks at the device's state, in order; about one a second is a whole one, the others leave out
    # what the driver is slow to tell.
    looks: tuple[Look, ...]
    # Looks at its processes, memory power and activities, in order.
    slow_looks: tuple[SlowLook, ...]
    cpu_share: float  # share of one core (0 to 1) that sampling took
    period_s: float  # period in force at the end, longer than asked for if sampling cost too much
    num_dropped: int  # samples and looks dropped to bound memory


class Sampler(Background):
    """Background sampling of one device on the device's own clock.

    Takes the driver's buffered power samples where there are any, else polls power. An error
    ends the sampling and is raised by :meth:`raise_if_failed` and :meth:`log`, so that a gap
    is never taken for a quiet device.

    Args:
        period_s: Period of polled power, 0.01 to 1; ``None`` takes the driver's own samples
            and polls at the period of the looks where there are none.
        budget: Share of one core that sampling may take before it doubles its period.
        max_samples: Power samples that are kept at most.
        counts_activity: Whether unit activities are counted, where the device can.
        seen: Is called with the processes that hold the device whenever they are read.
    """

    def __init__(
        self,
        device: Device,
        *,
        period_s: float | None = None,
        budget: float = 0.02,
        max_samples: int = 500_000,
        counts_activity: bool = False,
        seen: Callable[[frozenset[int]], None] | None = None,
    ) -> None:
        if period_s is not None and not 0.01 <= period_s <= 1:
            raise ConfigError(f"period_s must be within 0.01 and 1 or None, got {period_s}.")
        super().__init__(device, "Sampling stopped")
        capabilities = device.capabilities()
        self._seen = seen
        self._has_memory_power = capabilities.has_memory_power
        self._counts_activity = counts_activity and capabilities.has_activity
        self._probe: ActivityProbe | None = None
        self._counted_s = -np.inf
        self._polls_power = period_s is not None or not capabilities.has_power_samples
        self._period_s = period_s or (POLL_PERIOD_S if self._polls_power else LOOK_PERIOD_S)
        self._close_look_s = SLOW_PERIOD_S
        self._budget = budget
        self._power = PowerBuffer(max_samples)
        self._looks: deque[Look] = deque(maxlen=MAX_LOOKS)
        self._slow_looks: deque[SlowLook] = deque(maxlen=MAX_LOOKS)
        self._num_looks_dropped = 0
        self._looked_s = self._drained_s = self._looked_closely_s = self._asked_s = -np.inf
        self._num_excesses = 0
        self._start_s = self._billed_from_s = self._clock.now_s()
        self._bill_s = 0.0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Sample until :meth:`stop`."""
        self._start_s = self._clock.now_s()
        self._billed_from_s = self._start_s + FIRST_CALLS_S
        self._ticker = self._clock.every(self._period_s, self._beat)

    def has_looked_closely(self, since_s: float) -> bool:
        """Whether a whole look was taken after ``since_s``; asks for one if not."""
        if self._looked_closely_s >= since_s:
            return True
        if self._asked_s < since_s and self._ticker is not None:
            self._asked_s = self._clock.now_s()
            self._ticker.call_at(self._asked_s)
        return False

    def log(self) -> SampleLog:
        """Fetch what the driver still holds, and return everything seen so far.

        Raises DeviceLostError if the device has gone; MeasurementError if a reading failed in
        another way.
        """
        self.raise_if_failed()
        cpu_s = time.thread_time()
        with self._lock:
            self._drain(self._clock.now_s())
            self.cpu_s += time.thread_time() - cpu_s
            elapsed_s = max(self._clock.now_s() - self._start_s, 1e-9)
            return SampleLog(
                trace=self._power.trace(),
                looks=tuple(self._looks),
                slow_looks=tuple(self._slow_looks),
                cpu_share=self.cpu_s / elapsed_s,
                period_s=self._period_s,
                num_dropped=self._power.num_dropped + self._num_looks_dropped,
            )

    @override
    def _act(self, now_s: float) -> None:
        with self._lock:
            slack_s = self._period_s / 2
            asked = self._asked_s > self._looked_closely_s
            if self._polls_power:
                power_w = self._device.read_power_w()
                middle_s = (now_s + self._clock.now_s()) / 2
                self._power.add(np.array([middle_s]), np.array([power_w]))
            if asked or now_s - self._looked_closely_s >= self._close_look_s - slack_s:
                self._look(now_s, self._device.read_state())
                self._looked_closely_s = now_s
                self._slow_looks.append(self._slow_look(now_s))
            elif now_s - self._looked_s >= LOOK_PERIOD_S - slack_s:
                self._look(now_s, self._device.read_brief_state())
            if now_s - self._drained_s >= SLOW_PERIOD_S - slack_s:
                self._drain(now_s)

    def _look(self, now_s: float, state: DeviceState) -> None:
        self._looked_s = now_s
        self._num_looks_dropped += len(self._looks) == MAX_LOOKS
        self._looks.append(Look(at_s=now_s, state=state))

    def _drain(self, now_s: float) -> None:
        self._drained_s = now_s
        if not self._polls_power:
            samples = self._device.read_power_samples()
            self._power.add(samples.t_s, samples.power_w)

    def _slow_look(self, now_s: float) -> SlowLook:
        pids = frozenset(process.pid for process in self._device.read_processes())
        if self._seen is not None:
            self._seen(pids)
        return SlowLook(
            at_s=now_s,
            pids=pids,
            memory_power_w=self._device.read_memory_power_w() if self._has_memory_power else None,
            activity=self._count(now_s) if self._counts_activity else Activity(),
        )

    def _count(self, now_s: float) -> Activity:
        """Return the activities since they were last counted, unread if that is just now."""
        if now_s - self._counted_s < SHORTEST_COUNT_S:
            return Activity()
        self._counted_s = now_s
        if self._probe is None:
            self._probe = self._device.activity()
            return Activity()
        try:
            return self._probe.read()
        except MeasurementError:  # too few rows of DCGM's yet: the next read covers them
            return Activity()

    @override
    def _bill(self, cpu_s: float, _call_s: float) -> None:
        super()._bill(cpu_s, _call_s)
        elapsed_s = self._clock.now_s() - self._billed_from_s
        if elapsed_s < 0:
            return
        self._bill_s += cpu_s
        if elapsed_s >= JUDGED_S:
            share = self._bill_s / elapsed_s
            self._billed_from_s, self._bill_s = self._clock.now_s(), 0.0
            if share > self._budget:
                self._slow_down(share)

    def _slow_down(self, share: float) -> None:
        """Double the period, and tell so once; once more, and louder, if that did not help."""
        self._close_look_s = min(2 * self._close_look_s, SLOWEST_CLOSE_LOOK_S)
        if self._period_s >= SLOWEST_PERIOD_S or self._ticker is None:
            return
        self._period_s = min(2 * self._period_s, SLOWEST_PERIOD_S)
        self._ticker.set_period_s(self._period_s)
        self._num_excesses += 1
        if self._num_excesses <= len(_LOUDNESS):
            logger.log(
                _LOUDNESS[self._num_excesses - 1],
                "Sampling took %.1f %% of a core where %.1f %% are granted, so the device is now "
                "looked at every %g s.",
                100 * share,
                100 * self._budget,
                self._period_s,
            )


_LOUDNESS = (logging.INFO, logging.WARNING)
"""Of the messages that sampling is over its budget; there are no more than these."""
