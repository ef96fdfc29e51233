"""A GPU whose power is known exactly at every instant, on a virtual clock."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from joulelab.core.clock import VirtualClock
from joulelab.core.cost import WorkloadCost
from joulelab.core.device import (
    Activity,
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.energy import EnergyWindow
from joulelab.core.point import OperatingPoint
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import ActivityProbe, Device
from joulelab.errors import DeviceLostError
from joulelab.workloads.base import Workload

IDLE_W = 100.0
LOAD_W = 300.0
DEFAULT_CLOCK_MHZ = 1980
FOREIGN_PID = 2**22 + 1
"""Above ``PID_MAX_LIMIT`` of Linux: no process that a test starts can have it by chance."""


class FakeGpu(Device):
    """Power is ``idle_w`` at rest, ``load_w`` under load, plus ``extra_w`` of time.

    Args:
        tick_s: Period of the energy counter; ``None`` updates it at every read.
        read_s: How long a read of the counter takes.
        sample_s: Period of the buffered power samples; ``None`` for no buffer.
        extra_j: Energy from time zero that is added to the level's, e.g. a ramp's.
    """

    def __init__(
        self,
        *,
        tick_s: float | None = 0.1,
        phase_s: float = 0.037,
        read_s: float = 0.003,
        sample_s: float | None = 0.02,
        has_counter: bool = True,
        unit_s: float = 0.03,
        load_w: float = LOAD_W,
        extra_j: Callable[[float], float] = lambda t_s: 0.0,
    ) -> None:
        self._clock = VirtualClock(start_s=1000.0)
        self.tick_s, self.phase_s, self.read_s, self.sample_s = tick_s, phase_s, read_s, sample_s
        self.has_counter, self.unit_s, self.load_w, self.extra_j = (
            has_counter,
            unit_s,
            load_w,
            extra_j,
        )
        self.levels = [(0.0, IDLE_W, 0.0)]  # start, watts, joules before
        self.state = DeviceState(
            sm_clock_mhz=DEFAULT_CLOCK_MHZ,
            mem_clock_mhz=3201,
            temperature_c=50.0,
            power_limit_w=700.0,
            power_cap_s=0.0,
            thermal_s=0.0,
        )
        self.states: Callable[[float, DeviceState], DeviceState] = lambda t_s, state: state
        self.pids: Callable[[float], set[int]] = lambda t_s: set()
        self.counter: Callable[[float, float], float] = lambda t_s, energy_j: energy_j
        self.sensor: Callable[[float, float], float] = lambda t_s, power_w: power_w
        self.sensor_until_s = math.inf
        self.lost_from_s = math.inf
        self.fail_run: Callable[[float], None] = lambda t_s: None
        self.points: list[OperatingPoint] = []
        self.num_resets = 0
        self.num_counter_reads = 0
        self.num_prepared = self.num_rests = 0
        self.tell: Callable[[Sequence[EnergyWindow]], Mapping[str, float]] = lambda windows: {}

    @property
    @override
    def clock(self) -> VirtualClock:
        return self._clock

    def true_energy_j(self, t_s: float) -> float:
        start_s, power_w, before_j = next(lv for lv in reversed(self.levels) if lv[0] <= t_s)
        return before_j + power_w * (t_s - start_s) + self.extra_j(t_s)

    def true_power_w(self, t_s: float) -> float:
        return (self.true_energy_j(t_s) - self.true_energy_j(t_s - 1e-4)) / 1e-4

    def set_level_w(self, power_w: float) -> None:
        now_s = self._clock.now_s()
        start_s, level_w, before_j = self.levels[-1]
        if power_w != level_w:
            self.levels.append((now_s, power_w, before_j + level_w * (now_s - start_s)))

    @override
    def read_energy_j(self) -> float:
        self._require_present()
        self.num_counter_reads += 1
        self._clock.sleep_s(0.6 * self.read_s)
        t_s = self._clock.now_s()
        if self.tick_s is not None:
            t_s = math.floor((t_s - self.phase_s) / self.tick_s) * self.tick_s + self.phase_s
        self._clock.sleep_s(0.4 * self.read_s)
        return math.floor(self.counter(t_s, self.true_energy_j(t_s)) * 1e3) / 1e3

    @override
    def read_power_samples(self) -> PowerTrace:
        self._require_present()
        stop_s = min(self._clock.now_s(), self.sensor_until_s)
        last = math.floor(stop_s / self.sample_s)
        t_s = np.arange(last - 118, last + 1) * self.sample_s
        power_w = [self.sensor(float(t), self.true_power_w(float(t))) for t in t_s]
        return PowerTrace(t_s=t_s, power_w=np.array(power_w))

    @override
    def read_power_w(self) -> float:
        self._require_present()
        now_s = self._clock.now_s()
        return self.sensor(now_s, self.true_power_w(now_s))

    @override
    def read_state(self) -> DeviceState:
        self._require_present()
        return self.states(self._clock.now_s(), self.state)

    @override
    def read_brief_state(self) -> DeviceState:
        return replace(self.read_state(), power_cap_s=None, thermal_s=None)

    @override
    def read_processes(self) -> tuple[GpuProcess, ...]:
        self._require_present()
        return tuple(GpuProcess(pid=pid) for pid in sorted(self.pids(self._clock.now_s())))

    @override
    def read_memory_power_w(self) -> float:
        return 40.0

    @override
    def activity(self) -> ActivityProbe:
        return FakeProbe()

    @override
    def apply(self, point: OperatingPoint) -> None:
        self._require_present()
        self.points.append(point)
        if point.sm_clock_mhz is not None:
            self.state = replace(self.state, sm_clock_mhz=point.sm_clock_mhz)

    @override
    def reset(self) -> None:
        self.num_resets += 1
        self._require_present()
        self.state = replace(self.state, sm_clock_mhz=DEFAULT_CLOCK_MHZ)

    @override
    def host(self, workload: Workload[Any]) -> Workload[Any]:
        return FakeLoad(self, workload)

    @override
    def identity(self) -> DeviceIdentity:
        return DeviceIdentity(uuid="FAKE-0", name="Fake", backend="fake", driver_version="1")

    @override
    def capabilities(self) -> Capabilities:
        return Capabilities(
            sm_clocks_mhz=(1980, 1410, 705),
            mem_clocks_mhz=(3201,),
            power_limits_w=(200.0, 700.0),
            default_power_limit_w=700.0,
            has_energy_counter=self.has_counter,
            has_power_samples=self.sample_s is not None,
            has_memory_power=True,
            has_activity=True,
            can_set_clocks=True,
        )

    @classmethod
    @override
    def discover(cls, store: str | None = None) -> tuple[DeviceAddress, ...]:
        return (DeviceAddress(backend="fake", uuid="FAKE-0"),)

    @classmethod
    @override
    def open(cls, address: DeviceAddress) -> "FakeGpu":
        return cls()

    def _require_present(self) -> None:
        if self._clock.now_s() >= self.lost_from_s:
            raise DeviceLostError("Fake fell off the bus.")


class FakeProbe(ActivityProbe):
    """Reads a busy device."""

    @override
    def read(self) -> Activity:
        return Activity(sm_active=0.9)


class FakeLoad(Workload[Any]):
    """Keeps the fake busy for one unit at a time; every unit is one piece of work."""

    unit = "piece"

    def __init__(self, gpu: FakeGpu, workload: Workload[Any]) -> None:
        super().__init__(workload.settings)
        self._gpu = gpu
        self._workload = workload

    @property
    @override
    def phases(self) -> tuple[str, ...]:
        return self._workload.phases

    @override
    def prepare(self) -> None:
        self._gpu.num_prepared += 1

    @override
    def run(self, phase: str) -> float:
        gpu = self._gpu
        gpu.fail_run(gpu.clock.now_s())
        gpu.set_level_w(gpu.load_w)
        gpu.clock.sleep_s(gpu.unit_s)
        return 1.0

    @override
    def rest(self) -> None:
        self._gpu.num_rests += 1

    @override
    def figures(self, windows: Sequence[EnergyWindow]) -> Mapping[str, float]:
        return self._gpu.tell(windows)

    @override
    def close(self) -> None:
        self._gpu.set_level_w(IDLE_W)

    @override
    def cost(self) -> WorkloadCost:
        return self._workload.cost()
