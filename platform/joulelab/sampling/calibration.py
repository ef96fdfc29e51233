"""What a device's sensors are like here and now: measured, never looked up.

The tick of the energy counter is a property of the driver and its settings (an H200's is
100 ms, the registry allows up to a second), call latency one of the machine, and an observer
can raise the idle power that it came to see. All of it is timed on the device's own clock, so
a simulated device is calibrated as a real one is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np

from joulelab.core.ticks import CounterPolls, find_ticks
from joulelab.devices.base import Device
from joulelab.errors import DeviceUnsupportedError, MeasurementError
from joulelab.sampling.sampler import Sampler

POLL_PAUSE_S = 0.001
LONGEST_TICK_S = 1.0
"""The driver's own upper bound of its polling interval (RMRusdPollingInterval)."""
NUM_CALLS = 50
SETTLE_S = 0.5
"""Between the windows of the observer effect, for the device to notice the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTick:
    """How the energy counter advances."""

    period_s: float | None  # time between ticks; None if the counter changes at every read
    # Standard deviation of the ticks about a strict period, beyond what the spacing of the polls
    # explains; None without a period.
    jitter_s: float | None
    # Standard uncertainty of the time of one tick, from the spacing of the polls; jitter below it
    # is not seen. None without a period.
    resolution_s: float | None
    num_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLatency:
    """How long one of the device's reads takes."""

    call: str
    median_s: float
    p95_s: float
    num_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBuffer:
    """The driver's buffer of power samples."""

    period_s: float
    num_samples: int
    span_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverEffect:
    """What watching a resting device does to it."""

    quiet_power_w: float  # mean power while nobody looks
    watched_power_w: float  # mean power under the sampler
    # Standard uncertainty of their difference, from the counter's ticks and from how far the two
    # windows of each kind disagree.
    difference_u_w: float
    sampler_share: float  # share of one core (0 to 1) that the sampler took

    @property
    def difference_w(self) -> float:
        """What the sampler adds, in watts."""
        return self.watched_power_w - self.quiet_power_w


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Everything measured; ``None`` where the device lacks the sensor."""

    tick: CounterTick | None
    latencies: tuple[CallLatency, ...]
    samples: SampleBuffer | None
    observer: ObserverEffect | None


def calibrate(device: Device, *, observer_s: float = 2.0) -> Calibration:
    """Measure everything; takes some twelve seconds of an otherwise idle device.

    Each of the four windows of the observer effect takes ``observer_s``; 0 leaves it out. Raises
    MeasurementError if the energy counter stands still or runs backwards.
    """
    capabilities = device.capabilities()
    has_counter = capabilities.has_energy_counter
    return Calibration(
        tick=measure_tick(device) if has_counter else None,
        latencies=measure_latencies(device),
        samples=measure_sample_buffer(device) if capabilities.has_power_samples else None,
        observer=measure_observer_effect(device, window_s=observer_s)
        if has_counter and observer_s > 0
        else None,
    )


def measure_tick(device: Device, *, num_ticks: int = 30) -> CounterTick:
    """Poll the energy counter until it has ticked ``num_ticks`` times.

    Raises MeasurementError if the counter stands still or runs backwards.
    """
    polls = poll_ticks(device, num_ticks)
    ticks = find_ticks(polls)
    if ticks.period_s is None:
        return CounterTick(period_s=None, jitter_s=None, resolution_s=None, num_ticks=len(ticks))
    jitter_s, resolution_s = _jitter_s(polls, ticks.period_s)
    return CounterTick(
        period_s=ticks.period_s,
        jitter_s=jitter_s,
        resolution_s=resolution_s,
        num_ticks=len(ticks),
    )


def poll_ticks(device: Device, num_ticks: int) -> CounterPolls:
    """Poll the energy counter densely until it has ticked ``num_ticks`` times.

    Raises MeasurementError if the counter stands still or runs backwards.
    """
    clock = device.clock
    polls: list[tuple[float, float, float]] = []
    seen, moved_s = 0, clock.now_s()
    while seen < num_ticks:
        before_s = clock.now_s()
        energy_j = device.read_energy_j()
        after_s = clock.now_s()
        step_j = energy_j - polls[-1][2] if polls else 0.0
        polls.append((before_s, after_s, energy_j))
        if step_j < 0:
            raise MeasurementError(f"The energy counter ran backwards by {-step_j:.3f} J.")
        if step_j > 0:
            seen, moved_s = seen + 1, after_s
        elif after_s - moved_s > 3 * LONGEST_TICK_S:
            raise MeasurementError(
                f"The energy counter stood still for {after_s - moved_s:.1f} s; a working one "
                f"ticks at least every {LONGEST_TICK_S:g} s."
            )
        clock.sleep_s(POLL_PAUSE_S)
    return CounterPolls.of(polls)


def measure_latencies(device: Device, *, num_calls: int = NUM_CALLS) -> tuple[CallLatency, ...]:
    """Time every read that the device answers."""
    reads: list[Callable[[], object]] = [
        device.read_power_w,
        device.read_average_power_w,
        device.read_energy_j,
        device.read_power_samples,
        device.read_memory_power_w,
        device.read_state,
        device.read_processes,
    ]
    timed = (_time_calls(device, read, num_calls) for read in reads)
    return tuple(latency for latency in timed if latency is not None)


def measure_sample_buffer(device: Device) -> SampleBuffer:
    """Look at the driver's buffer of power samples.

    Raises MeasurementError if it holds fewer than two samples.
    """
    trace = device.read_power_samples()
    if len(trace) < 2:
        raise MeasurementError(f"A sample period needs two samples, the buffer has {len(trace)}.")
    return SampleBuffer(
        period_s=float(np.median(np.diff(trace.t_s))),
        num_samples=len(trace),
        span_s=float(trace.t_s[-1] - trace.t_s[0]),
    )


def measure_observer_effect(device: Device, *, window_s: float = 2.0) -> ObserverEffect:
    """Compare a resting device unwatched and under the sampler.

    The windows run quiet, watched, watched, quiet, so that a steady drift falls out of the
    difference.
    """
    first = _quiet_power(device, window_s)
    sampler = Sampler(device)
    sampler.start()
    try:
        device.clock.sleep_s(SETTLE_S)
        second, third = _quiet_power(device, window_s), _quiet_power(device, window_s)
        share = sampler.log().cpu_share
    finally:
        sampler.stop()
    device.clock.sleep_s(SETTLE_S)
    last = _quiet_power(device, window_s)
    return ObserverEffect(
        quiet_power_w=(first[0] + last[0]) / 2,
        watched_power_w=(second[0] + third[0]) / 2,
        difference_u_w=hypot(
            *(window[1] for window in (first, second, third, last)),
            first[0] - last[0],
            second[0] - third[0],
        )
        / 2,
        sampler_share=share,
    )


def _quiet_power(device: Device, window_s: float) -> tuple[float, float]:
    """Mean power from one tick to another about ``window_s`` later, and its uncertainty."""
    start_s, start_u_s, start_j = _catch_tick(device)
    device.clock.sleep_s(window_s)
    stop_s, stop_u_s, stop_j = _catch_tick(device)
    duration_s = stop_s - start_s
    power_w = (stop_j - start_j) / duration_s
    return power_w, power_w * hypot(start_u_s, stop_u_s) / duration_s


def _catch_tick(device: Device) -> tuple[float, float, float]:
    """Wait for a tick; returns its time, the standard uncertainty of it, and the new value."""
    polls = poll_ticks(device, 1)
    width_s = float(polls.after_s[-1] - polls.before_s[-2])
    middle_s = float(polls.after_s[-1] + polls.before_s[-2]) / 2
    return middle_s, width_s / sqrt(12), float(polls.energy_j[-1])


def _jitter_s(polls: CounterPolls, period_s: float) -> tuple[float, float]:
    """Scatter of the ticks about a line beyond that of their brackets, and the latter."""
    new = 1 + np.flatnonzero(np.diff(polls.energy_j))
    earliest_s, latest_s = polls.before_s[new - 1], polls.after_s[new]
    middle_s = (earliest_s + latest_s) / 2
    number = np.rint((middle_s - middle_s[0]) / period_s)
    residual_s = middle_s - np.polyval(np.polyfit(number, middle_s, 1), number)
    resolution_s = sqrt(float(np.mean((latest_s - earliest_s) ** 2)) / 12)
    return sqrt(max(0.0, float(np.var(residual_s, ddof=2)) - resolution_s**2)), resolution_s


def _time_calls(device: Device, read: Callable[[], object], num_calls: int) -> CallLatency | None:
    clock = device.clock
    taken_s = []
    for _ in range(num_calls):
        before_s = clock.now_s()
        try:
            read()
        except DeviceUnsupportedError:
            return None
        taken_s.append(clock.now_s() - before_s)
    return CallLatency(
        call=read.__name__,
        median_s=float(np.median(taken_s)),
        p95_s=float(np.quantile(taken_s, 0.95)),
        num_calls=num_calls,
    )
