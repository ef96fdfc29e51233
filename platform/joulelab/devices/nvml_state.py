"""One look at a GPU: clocks, temperatures, limits, what holds its clocks down, unit activity."""

import math
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.core.device import Activity, DeviceState, EventReason
from joulelab.devices.base import ActivityProbe
from joulelab.devices.nvml_library import Handle, call, error_for, value_of
from joulelab.errors import DeviceUnsupportedError, MeasurementError


class Field(NamedTuple):
    """A field and the part of the board that it is asked of."""

    id: int
    scope: int = 0


POWER_INSTANT = Field(186)
POWER_AVERAGE = Field(185)
MEMORY_POWER_AVERAGE = Field(185, scope=2)
MEMORY_TEMPERATURE = Field(82)
POWER_CAP_NS = Field(74)

# Software and hardware thermal slowdown. The driver branches 570 and 580 number them
# differently; 75 is the older counter of both.
THERMAL_NS = ((Field(269), Field(270)), (Field(251), Field(252)), (Field(75),))

_COUNTER = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
_ABSENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NO_DATA,
}


def read_fields(handle: Any, fields: Sequence[Field]) -> list[float | None]:
    """Read several fields at once; ``None`` for those that this driver or board lacks.

    Raises DeviceError if the driver fails otherwise.
    """
    asked = [tuple(field) for field in fields]
    values = call("Reading field values", pynvml.nvmlDeviceGetFieldValues, handle, asked)
    return [_decoded(value) for value in values]


def thermal_fields(handle: Any) -> tuple[Field, ...]:
    """Find the fields that count thermal slowdown here, in nanoseconds; empty if none does.

    Other drivers use the same numbers for other things, so a counter is known by its type too.
    """
    for fields in THERMAL_NS:
        asked = [tuple(field) for field in fields]
        values = call("Reading field values", pynvml.nvmlDeviceGetFieldValues, handle, asked)
        if all(v.valueType == _COUNTER and _decoded(v) is not None for v in values):
            return fields
    return ()


def _decoded(value: Any) -> float | None:
    if value.nvmlReturn == pynvml.NVML_SUCCESS:
        return value_of(value.value, value.valueType)
    if value.nvmlReturn in _ABSENT:
        return None
    driver_message = str(pynvml.NVMLError(value.nvmlReturn))
    raise error_for(value.nvmlReturn, f"Reading field {value.fieldId}", driver_message)


_KNOWN_REASONS = sum(reason.value for reason in EventReason)


class StateReader:
    """Reads the state of one GPU; remembers which of two ways its driver understands."""

    def __init__(self, gpu: Handle) -> None:
        self._gpu = gpu
        self._thermal_fields: tuple[Field, ...] | None = None

    def read(self) -> DeviceState:
        """Look once."""
        if self._thermal_fields is None:
            self._thermal_fields = thermal_fields(self._gpu.native)
        wanted = [MEMORY_TEMPERATURE, POWER_CAP_NS, *self._thermal_fields]
        memory_c, power_cap_ns, *thermal_ns = read_fields(self._gpu.native, wanted)
        known_ns = [each for each in thermal_ns if each is not None]
        return replace(
            self.read_live(),
            memory_temperature_c=memory_c,
            power_cap_s=None if power_cap_ns is None else power_cap_ns * 1e-9,
            thermal_s=sum(known_ns) * 1e-9 if known_ns else None,
        )

    def read_live(self) -> DeviceState:
        """Look once at all but the counters, which take longest."""
        rates = self._gpu.ask_if_supported("the utilization", pynvml.nvmlDeviceGetUtilizationRates)
        return replace(
            self.read_brief(),
            gpu_utilization=None if rates is None else rates.gpu / 100,
            memory_utilization=None if rates is None else rates.memory / 100,
            memory_used_b=self._read_memory_used_b(),
        )

    def read_brief(self) -> DeviceState:
        """Look once at what the driver tells in microseconds.

        The thermal counters alone take an H200's driver up to 2 ms.
        """
        return DeviceState(
            sm_clock_mhz=self.read_clock_mhz(pynvml.NVML_CLOCK_SM),
            mem_clock_mhz=self.read_clock_mhz(pynvml.NVML_CLOCK_MEM),
            temperature_c=self._read_temperature_c(),
            power_limit_w=self._read_power_limit_w(),
            event_reasons=self._read_event_reasons(),
        )

    def read_clock_mhz(self, which: int) -> int:
        """Look once at one of the clocks, by NVML's number of it."""
        return int(self._gpu.ask("a clock", pynvml.nvmlDeviceGetClockInfo, which))

    def _read_temperature_c(self) -> float:
        sensor = pynvml.NVML_TEMPERATURE_GPU
        try:
            return float(self._gpu.ask("the temperature", pynvml.nvmlDeviceGetTemperatureV, sensor))
        except DeviceUnsupportedError:  # before driver 560
            return float(self._gpu.ask("the temperature", pynvml.nvmlDeviceGetTemperature, sensor))

    def _read_power_limit_w(self) -> float | None:
        limit_mw = self._gpu.ask_if_supported(
            "the power limit", pynvml.nvmlDeviceGetEnforcedPowerLimit
        )
        return None if limit_mw is None else limit_mw * 1e-3

    def _read_memory_used_b(self) -> int | None:
        """Read what ``nvidia-smi`` calls used, which leaves out what the driver reserves."""
        what, info = "its memory", pynvml.nvmlDeviceGetMemoryInfo
        memory = self._gpu.ask_if_supported(what, info, pynvml.nvmlMemory_v2)
        if memory is None:  # before driver 510, when nothing else was called used either
            memory = self._gpu.ask_if_supported(what, info)
        return None if memory is None else int(memory.used)

    def _read_event_reasons(self) -> EventReason:
        what = "the event reasons"
        try:
            bits = self._gpu.ask(what, pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        except DeviceUnsupportedError:  # before driver 535 they were called throttle reasons
            bits = self._gpu.ask(what, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        return EventReason(bits & _KNOWN_REASONS)


MIN_INTERVAL_S = 0.1
_ONE_AT_A_TIME = threading.Lock()
"""Held around every call of GPM. With two H100s counted by two threads of a process (driver
580.159), nvmlGpmMetricsGet crashed the process at its first reads, each of two times."""

_METRICS = {
    "gr_engine_active": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm_active": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    "fp64_active": pynvml.NVML_GPM_METRIC_FP64_UTIL,
    "fp32_active": pynvml.NVML_GPM_METRIC_FP32_UTIL,
    "fp16_active": pynvml.NVML_GPM_METRIC_FP16_UTIL,
}


def gpm_supported(handle: Any) -> bool:
    """Whether this device and driver have GPM."""
    try:
        asked = call("Asking for GPM", pynvml.nvmlGpmQueryDeviceSupport, handle)
    except DeviceUnsupportedError:
        return False
    return bool(asked.isSupportedDevice)


class GpmProbe(ActivityProbe):
    """Mean activity between two GPM samples.

    On an H200 taking a sample costs 0.25 ms, and computing metrics of two 1.4 to 1.9 ms.
    """

    can_mark = True

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        # Of the time from which on is counted, of the mark, and of now.
        self._first, self._marked, self._spare = samples = [_new_sample() for _ in range(3)]
        weakref.finalize(self, _free, samples)
        self._take(self._first)

    @override
    def read(self) -> Activity:
        """Return mean activity since the probe was made or last read; raises as a mark does."""
        self.mark()
        return self.read_to_mark()

    @override
    def mark(self) -> None:
        """Take note of the counters now.

        Raises MeasurementError if the last read, or mark, was less than 0.1 s ago: the driver would
        answer zeros.
        """
        elapsed_s = time.monotonic() - self._taken_s
        if elapsed_s < MIN_INTERVAL_S:
            raise MeasurementError(
                f"Activity needs at least {MIN_INTERVAL_S} s between reads, got {elapsed_s:.3f} s."
            )
        self._take(self._spare)
        self._marked, self._spare = self._spare, self._marked

    @override
    def read_to_mark(self) -> Activity:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.sample1, asked.sample2 = self._first, self._marked
        asked.numMetrics = len(_METRICS)
        for index, metric in enumerate(_METRICS.values()):
            asked.metrics[index].metricId = metric
        with _ONE_AT_A_TIME:
            call("Reading GPM metrics", pynvml.nvmlGpmMetricsGet, asked)
        self._first, self._marked = self._marked, self._first
        return Activity(
            **{name: _share(asked.metrics[index]) for index, name in enumerate(_METRICS)}
        )

    def _take(self, sample: Any) -> None:
        with _ONE_AT_A_TIME:
            call("Taking a GPM sample", pynvml.nvmlGpmSampleGet, self._handle, sample)
        self._taken_s = time.monotonic()


def _share(metric: Any) -> float | None:
    if metric.nvmlReturn != pynvml.NVML_SUCCESS or not math.isfinite(metric.value):
        return None
    return float(metric.value) / 100


def _new_sample() -> Any:
    with _ONE_AT_A_TIME:
        return call("Allocating a GPM sample", pynvml.nvmlGpmSampleAlloc)


def _free(samples: list[Any]) -> None:
    with suppress(pynvml.NVMLError):
        for sample in samples:
            pynvml.nvmlGpmSampleFree(sample)
