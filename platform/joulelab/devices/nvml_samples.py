"""The driver's buffered power samples, moved from its clock to the machine's monotonic one.

On an H200 the buffer holds 119 samples, 20 ms apart, stamped in microseconds of wall time.
Some drivers stamp in time since boot instead, so the clock is recognised from the stamps: the
newest sample is a moment old on the right clock and years off on the others.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pynvml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from joulelab.core.trace import PowerTrace
from joulelab.devices.nvml_library import call
from joulelab.devices.nvml_state import value_of
from joulelab.errors import (
    DeviceError,
    DeviceNotFoundError,
    DeviceUnsupportedError,
    MeasurementError,
)

NEWEST_MAX_AGE_S = 60.0
STEP_S = 0.005
SLEW_S_PER_S = 1e-3
"""A wall clock that is slewed drifts at most 500 ppm (adjtime); more is a step."""

_CLOCKS = {
    "wall time": time.CLOCK_REALTIME,
    "time since boot": time.CLOCK_BOOTTIME,
    "monotonic time": time.CLOCK_MONOTONIC,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How the driver's stamps relate to the monotonic clock."""

    clock: str  # what the driver stamps in, e.g. "wall time"
    offset_s: float  # lead of that clock over the monotonic one, in seconds
    at_s: float  # when it was found, on the monotonic clock


class PowerSamples:
    """Reads the buffer of one device."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._last: Alignment | None = None

    def read(self) -> PowerTrace:
        """Read every sample in the buffer, on the monotonic clock.

        Raises:
            DeviceUnsupportedError: If the buffer is empty or there is none.
            DeviceError: If the samples are stamped on no clock of this machine.
            MeasurementError: If the wall clock was stepped since the last read, so that the
                stamps of the samples no longer tell when they were taken.
        """
        stamps_us, power_mw = self._read_raw()
        last, self._last = self._last, align(float(stamps_us[-1]) * 1e-6)
        _refuse_step(last, self._last)
        return PowerTrace(stamps_us * 1e-6 - self._last.offset_s, power_mw * 1e-3)

    def _read_raw(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        what, function = "Reading buffered power samples", pynvml.nvmlDeviceGetSamples
        try:
            value_type, samples = call(
                what, function, self._handle, pynvml.NVML_TOTAL_POWER_SAMPLES, 0
            )
        except DeviceNotFoundError:  # what the driver calls an empty buffer
            value_type, samples = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, []
        taken = {s.timeStamp: value_of(s.sampleValue, value_type) for s in samples if s.timeStamp}
        if not taken:
            raise DeviceUnsupportedError("The driver's buffer of power samples is empty.")
        stamps_us = sorted(taken)
        return np.array(stamps_us, float), np.array([taken[stamp] for stamp in stamps_us], float)


def align(newest_s: float) -> Alignment:
    """Find the clock that stamped the newest sample, and its lead over the monotonic one.

    Raises:
        DeviceError: If no clock of this machine fits.
    """
    ages = {}
    for name, clock in _CLOCKS.items():
        offset_s = _offset_s(clock)
        now_s = time.monotonic()
        ages[name] = now_s + offset_s - newest_s
        if -STEP_S <= ages[name] <= NEWEST_MAX_AGE_S:
            return Alignment(clock=name, offset_s=offset_s, at_s=now_s)
    stated = ", ".join(f"{age:.3g} s by {name}" for name, age in ages.items())
    raise DeviceError(f"The newest power sample must be at most a minute old, but is {stated} old.")


def _offset_s(clock: int) -> float:
    """Lead of ``clock`` over the monotonic clock, from the tightest of a few brackets."""
    brackets = []
    for _ in range(3):
        before_ns = time.monotonic_ns()
        there_ns = time.clock_gettime_ns(clock)
        after_ns = time.monotonic_ns()
        brackets.append((after_ns - before_ns, there_ns - (before_ns + after_ns) // 2))
    return min(brackets)[1] * 1e-9


def _refuse_step(last: Alignment | None, now: Alignment) -> None:
    if last is None:
        return
    allowed_s = STEP_S + SLEW_S_PER_S * (now.at_s - last.at_s)
    if last.clock == now.clock and abs(now.offset_s - last.offset_s) <= allowed_s:
        return
    raise MeasurementError(
        f"The wall clock moved by {now.offset_s - last.offset_s:+.3f} s since the last read, "
        "and the driver stamps power samples with it; measure again once it is steady."
    )
