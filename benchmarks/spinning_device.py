"""A device whose reads keep a core busy for as long as a real driver's calls do."""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from typing_extensions import override

from joulelab.core.clock import Clock
from joulelab.core.device import (
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import ActivityProbe, Device
from joulelab.workloads.base import Workload

Answer = TypeVar("Answer")

H200_READS_S: Mapping[str, tuple[float, ...]] = {
    "energy_j": (3.1e-3, 3.7e-3, 3.1e-3, 3.7e-3, 3.4e-3, 3.4e-3, 3.4e-3, 3.4e-3, 3.4e-3, 11e-3),
    "power_samples": (0.53e-3,),
    "state": (2.37e-3, 0.37e-3),
    "brief_state": (0.17e-3,),
    "processes": (0.3e-3,),
    "memory_power_w": (0.08e-3,),
}
"""CPU time of successive reads as seen on an H200 with driver 580, where it equals wall time:
the counter takes 3.1 to 3.7 ms and now and then 8 to 14; the thermal counters in a whole look at
the state take about 1 ms each at times. Those of processes are an estimate."""


class SpinningDevice(Device):
    """Answers as another device does, after spinning for the time that a driver would take.

    Args:
        device: The device that knows the answers; it lives on the machine's clock.
        reads_s: CPU time of successive reads of each kind, over and over.
    """

    def __init__(
        self, device: Device, reads_s: Mapping[str, tuple[float, ...]] = H200_READS_S
    ) -> None:
        self._device = device
        self._reads_s = reads_s
        self._num_reads = dict.fromkeys(reads_s, 0)
        self._bytes = memoryview(_BYTES)
        self._hashed_b_per_s = _hash_speed_b_per_s()

    @property
    @override
    def clock(self) -> Clock:
        return self._device.clock

    @override
    def read_energy_j(self) -> float:
        return self._slowly("energy_j", self._device.read_energy_j)

    @override
    def read_power_samples(self) -> PowerTrace:
        return self._slowly("power_samples", self._device.read_power_samples)

    @override
    def read_state(self) -> DeviceState:
        return self._slowly("state", self._device.read_state)

    @override
    def read_brief_state(self) -> DeviceState:
        return self._slowly("brief_state", self._device.read_brief_state)

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        return self._slowly("processes", self._device.read_processes)

    @override
    def read_memory_power_w(self) -> float:
        return self._slowly("memory_power_w", self._device.read_memory_power_w)

    @override
    def read_power_w(self) -> float:
        return self._device.read_power_w()

    @override
    def activity(self) -> ActivityProbe:
        return self._device.activity()

    @override
    def identity(self) -> DeviceIdentity:
        return self._device.identity()

    @override
    def capabilities(self) -> Capabilities:
        return self._device.capabilities()

    @override
    def host(self, workload: Workload[Any]) -> Workload[Any]:
        return self._device.host(workload)

    @override
    def apply(self, point: OperatingPoint) -> None:
        self._device.apply(point)

    @override
    def reset(self) -> None:
        self._device.reset()

    @override
    def close(self) -> None:
        self._device.close()

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        return ()

    @classmethod
    @override
    def open(cls, address: DeviceAddress) -> "SpinningDevice":
        raise NotImplementedError("It wraps a device that is open already.")

    def _slowly(self, read: str, answer: Callable[[], Answer]) -> Answer:
        """Answer, and spin for what is left of the CPU time that the read should take."""
        durations_s = self._reads_s[read]
        number = self._num_reads[read]
        self._num_reads[read] = number + 1
        stop_s = time.thread_time() + durations_s[number % len(durations_s)]
        answered = answer()
        self._spin(stop_s - time.thread_time())
        return answered

    def _spin(self, duration_s: float) -> None:
        """Hash some bytes, which keeps a core busy without the interpreter's lock."""
        size_b = int(duration_s * self._hashed_b_per_s)
        if size_b > 0:
            hashlib.sha256(self._bytes[:size_b])


def _hash_speed_b_per_s() -> float:
    best_s = float("inf")
    for _ in range(5):
        start_s = time.thread_time()
        hashlib.sha256(_BYTES)
        best_s = min(best_s, time.thread_time() - start_s)
    return len(_BYTES) / best_s


_BYTES = bytes(32 * 2**20)
