"""Unit activity from NVML's GPU performance monitoring (GPM), on Hopper and later.

Measured on an H200: a sample takes 0.2 to 0.7 ms, the metrics of two samples 1 ms. Two samples
less than a millisecond apart yield all zeros and a NaN *with a success code*, so a minimum
distance is kept here.
"""

import math
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import pynvml  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.core.device import Activity
from joulelab.devices.base import ActivityProbe
from joulelab.devices.nvml_library import call
from joulelab.errors import DeviceUnsupportedError, MeasurementError

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
    """Mean activity between two GPM samples."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._samples = [_new_sample(), _new_sample()]
        weakref.finalize(self, _free, list(self._samples))
        self._take(0)

    @override
    def read(self) -> Activity:
        """Return mean activity since the probe was made or last read.

        Raises:
            MeasurementError: If that was less than 0.1 s ago: the driver would answer zeros.
        """
        elapsed_s = time.monotonic() - self._taken_s
        if elapsed_s < MIN_INTERVAL_S:
            raise MeasurementError(
                f"Activity needs at least {MIN_INTERVAL_S} s between reads, got {elapsed_s:.3f} s."
            )
        self._take(1)
        activity = self._between()
        self._samples.reverse()
        return activity

    def _take(self, which: int) -> None:
        with _ONE_AT_A_TIME:
            call("Taking a GPM sample", pynvml.nvmlGpmSampleGet, self._handle, self._samples[which])
        self._taken_s = time.monotonic()

    def _between(self) -> Activity:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.sample1, asked.sample2 = self._samples
        asked.numMetrics = len(_METRICS)
        for index, metric in enumerate(_METRICS.values()):
            asked.metrics[index].metricId = metric
        with _ONE_AT_A_TIME:
            call("Reading GPM metrics", pynvml.nvmlGpmMetricsGet, asked)
        return Activity(
            **{name: _share(asked.metrics[index]) for index, name in enumerate(_METRICS)}
        )


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
