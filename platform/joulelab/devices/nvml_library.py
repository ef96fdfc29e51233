"""The NVML library: opening it, finding a GPU by UUID, asking it things, its errors and samples.

``nvidia-smi`` exits with the same error codes. Power samples are moved from the driver's clock to
the machine's monotonic one. On an H200 the buffer holds 119 samples, 20 ms apart, stamped in
microseconds of wall time. Some drivers stamp in time since boot instead, so the clock is recognised
from the stamps: the newest sample is a moment old on the right clock and years off on the others.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pynvml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from joulelab.core.trace import PowerTrace
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    DeviceUnsupportedError,
    JouleLabError,
    MeasurementError,
)

T = TypeVar("T")

HOW_TO_GET_PERMISSION = (
    "It takes CAP_SYS_ADMIN on the host (root): have the site run `joulelab guard` as root on "
    "the node and lease the clocks from it, or measure at the driver's clocks with --observe-only."
)

_ERRORS: dict[int, type[JouleLabError]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: DeviceUnsupportedError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: DeviceUnsupportedError,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: DeviceUnsupportedError,
    pynvml.NVML_ERROR_DEPRECATED: DeviceUnsupportedError,
    pynvml.NVML_ERROR_NO_PERMISSION: DevicePermissionError,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED: ConfigError,
    pynvml.NVML_ERROR_NOT_FOUND: DeviceNotFoundError,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: DeviceNotFoundError,
    pynvml.NVML_ERROR_GPU_IS_LOST: DeviceLostError,
    pynvml.NVML_ERROR_RESET_REQUIRED: DeviceLostError,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DeviceLostError,
    pynvml.NVML_ERROR_UNINITIALIZED: DeviceLostError,
}


_VALUE_OF_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def error_for(code: int, what: str, driver_message: str) -> JouleLabError:
    """Build the error for an NVML return code."""
    message = f"{what} failed: NVML says {driver_message!r} (code {code})."
    error = _ERRORS.get(code, DeviceError)
    if error is DevicePermissionError:
        message = f"{message} {HOW_TO_GET_PERMISSION}"
    return error(message)


def call(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call an NVML function and raise the package's error if it fails."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise error_for(error.value, what, str(error)) from error
    except pynvml.NVMLLibraryMismatchError as error:
        raise DeviceUnsupportedError(f"{what} failed: the driver is too old: {error}") from error


def value_of(union: Any, value_type: int) -> float:
    """Take the member of an NVML value union that ``value_type`` names."""
    return getattr(union, _VALUE_OF_TYPE[value_type])  # type: ignore[no-any-return]


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handle:
    """One GPU as the library knows it."""

    uuid: str  # its UUID
    native: Any  # NVML's own handle

    def ask(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        """Call ``function(native, *arguments)``."""
        return call(f"Reading {what} of {self.uuid}", function, self.native, *arguments)

    def ask_if_supported(self, what: str, function: Callable[..., T], *arguments: Any) -> T | None:
        """Do the same, with ``None`` where this device or driver has no such thing."""
        try:
            return self.ask(what, function, *arguments)
        except DeviceUnsupportedError:
            return None


def start() -> None:
    """Initialise the library; it counts its users, so every start needs a :func:`stop`.

    Raises DeviceError if there is no library or no driver.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"NVML cannot be used here: {error}. It needs an NVIDIA driver whose "
            "libnvidia-ml.so.1 the dynamic linker finds."
        ) from error


def stop() -> None:
    """Let go of the library."""
    call("Shutting NVML down", pynvml.nvmlShutdown)


def find_uuids() -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that the library sees, in its order; those lost are left out."""
    count = call("Counting GPUs", pynvml.nvmlDeviceGetCount)
    return tuple(uuid for uuid in map(_uuid_at, range(count)) if uuid is not None)


def find(uuid: str) -> Handle:
    """Find a GPU by its UUID.

    Raises DeviceNotFoundError if there is none; names those that there are.
    """
    try:
        return Handle(uuid, call(f"Finding {uuid}", pynvml.nvmlDeviceGetHandleByUUID, uuid))
    except DeviceNotFoundError as error:
        there = ", ".join(find_uuids()) or "none"
        raise DeviceNotFoundError(
            f"uuid must be of a GPU that NVML sees, got {uuid!r}; there are: {there}."
        ) from error


def _uuid_at(index: int) -> str | None:
    try:
        native = call(f"Finding GPU {index}", pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid: str = call(f"Reading the UUID of GPU {index}", pynvml.nvmlDeviceGetUUID, native)
    except DeviceLostError as error:
        _log.warning("GPU %d is left out: %s", index, error)
        return None
    return uuid


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

        Raises DeviceUnsupportedError if the buffer is empty or there is none; DeviceError if the
        samples are stamped on no clock of this machine; MeasurementError if the wall clock was
        stepped since the last read, so that the stamps of the samples no longer tell when they were
        taken.
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

    Raises DeviceError if no clock of this machine fits.
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
