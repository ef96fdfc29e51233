"""What one phase of a program takes of a GPU, as a function of its clocks.

Time and power follow :mod:`joulelab.core.power_law`: what is clocked are the clock tree, busy SMs
and busy pipes.
"""

from dataclasses import dataclass

import numpy as np

from joulelab.core.cost import Data, PhaseCost, Pipe
from joulelab.core.device import Activity
from joulelab.core.power_law import OVERHEAD_SHARE, Array, board_w
from joulelab.devices.simulated.load import Load
from joulelab.errors import ConfigError
from joulelab.hardware import GpuSpec
from joulelab.hardware.spec import BUSY_SM_SHARE

_CORE_OCCUPANCY, _MEMORY_OCCUPANCY = 0.14, 0.80
"""Occupancy of GEMM and of copy kernels on the H200 (GPM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """A phase at one pair of clocks."""

    duration_s: float
    power_w: float  # board power at the reference temperature
    memory_w: float  # the memory's share of it
    leakage_w: float  # leakage at the reference temperature and this voltage, for its change
    activity: Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPoints:
    """One launch of each kernel of a phase at one pair of clocks; shape ``(n,)`` each."""

    device_s: Array  # time on the device
    dynamic_j: Array  # energy above what the board draws at that clock while it waits


class PhaseModel:
    """A phase on one board, at any clock; ``None`` is a device that nobody uses.

    An execution that would take less than ``until_s`` waits busily in its sums for the other boards
    that share it. ``factors`` is what each kernel takes above static power over what it takes
    alone, shape ``(n,)``; 1 by default. Raises ConfigError if a kernel needs a pipe that the GPU
    lacks; names those it has.
    """

    def __init__(
        self,
        spec: GpuSpec,
        phase: PhaseCost | None,
        *,
        data: Data = "random",
        voltage_scale: float = 1.0,
        until_s: float = 0.0,
        factors: Array | None = None,
    ) -> None:
        self._until_s = until_s
        self._factors = factors
        self._spec = spec
        self._phase = phase
        self._toggle = 1.0 if data == "random" else spec.power.zeros_factor
        self._voltage_scale = voltage_scale
        self._points: dict[tuple[int, int], LoadPoint] = {}
        self._load = Load(spec, phase) if phase is not None and phase.kernels else None

    @property
    def has_kernels(self) -> bool:
        """Whether it computes at all, and does not only wait."""
        return self._load is not None

    def at(self, clock_mhz: int, mem_clock_mhz: int) -> LoadPoint:
        """Return the phase at these clocks."""
        key = (clock_mhz, mem_clock_mhz)
        point = self._points.get(key)
        if point is None:
            point = self._points[key] = self._point(clock_mhz, mem_clock_mhz)
        return point

    def kernels_at(self, clock_mhz: int, mem_clock_mhz: int) -> KernelPoints:
        """Return what each launch takes: the power of :meth:`at` is linear in what kernels do.

        Raises ConfigError if the phase has no kernels.
        """
        if self._load is None:
            raise ConfigError("A phase that only waits has no kernels.")
        slowdown = self._spec.mem_clocks_mhz[0] / mem_clock_mhz
        kernels = self._load.by_kernel(clock_mhz, memory_slowdown=slowdown)
        power, ghz = self._spec.power, clock_mhz / 1000
        busy_j = ghz * power.sm_w_per_ghz * BUSY_SM_SHARE * kernels.on_sms_s
        for pipe, flop in kernels.flop.items():
            pipe_s = flop / self._spec.peak_flop_per_s(pipe, clock_mhz)
            busy_j = busy_j + self._toggle * ghz * power.pipe_w_per_ghz[pipe] * pipe_s
        on_die_j = self._toggle * power.crossbar_j_per_b * kernels.cache_b
        core_j = self._squared_voltage(clock_mhz) * (busy_j + on_die_j)
        dynamic_j = core_j + power.dram_j_per_b * kernels.memory_b + kernels.link_j
        if self._factors is not None:
            dynamic_j = self._factors * dynamic_j
        return KernelPoints(device_s=kernels.device_s, dynamic_j=dynamic_j)

    def spinning_w(self, clock_mhz: int) -> float:
        """Return what the board draws above :meth:`waiting_w` while it waits in a sum."""
        busy_w = clock_mhz / 1000 * self._spec.power.sm_w_per_ghz * BUSY_SM_SHARE * OVERHEAD_SHARE
        return self._squared_voltage(clock_mhz) * busy_w

    def waiting_w(self, clock_mhz: int) -> float:
        """Return board power at a clock at which nothing runs, at the reference temperature."""
        core_w = clock_mhz / 1000 * self._spec.power.clock_tree_w_per_ghz
        return board_w(self._spec.power.constant_w, self._squared_voltage(clock_mhz), core_w)

    def _squared_voltage(self, clock_mhz: int) -> float:
        return (self._spec.voltage.at(clock_mhz) * self._voltage_scale) ** 2

    def _point(self, clock_mhz: int, mem_clock_mhz: int) -> LoadPoint:
        times = self._times(clock_mhz, mem_clock_mhz)
        flop = {} if self._load is None else self._load.flop
        rates = {
            pipe: flop / times.execution_s / self._spec.peak_flop_per_s(pipe, clock_mhz)
            for pipe, flop in flop.items()
            if flop
        }
        bandwidth = times.memory_b / times.execution_s
        activity = _activity(self._spec, times, rates, bandwidth)
        sm_active = activity.sm_active or 0.0
        power = self._spec.power
        voltage2 = self._squared_voltage(clock_mhz)
        pipes_w_per_ghz = sum(power.pipe_w_per_ghz[pipe] * rate for pipe, rate in rates.items())
        per_ghz_w = power.clock_tree_w_per_ghz + power.sm_w_per_ghz * sm_active
        per_ghz_w += self._toggle * pipes_w_per_ghz
        on_die_w = self._toggle * power.crossbar_j_per_b * times.cache_b / times.execution_s
        core_w = clock_mhz / 1000 * per_ghz_w + on_die_w
        dram_w = power.dram_j_per_b * bandwidth
        link_w = 0.0 if self._load is None else self._load.link_j / times.execution_s
        if self._phase is not None and self._phase.sums_over_devices:
            link_w += self._spec.link.awake_w
        return LoadPoint(
            duration_s=times.execution_s,
            power_w=board_w(power.constant_w, voltage2, core_w, dram_w + link_w)
            + self._context_j(clock_mhz, mem_clock_mhz) / times.execution_s,
            memory_w=power.memory_idle_w + dram_w,
            leakage_w=power.leakage_w * voltage2,
            activity=activity,
        )

    def _context_j(self, clock_mhz: int, mem_clock_mhz: int) -> float:
        """Return what an execution takes beyond its kernels alone."""
        if self._phase is None or self._factors is None:
            return 0.0
        launches = np.array([kernel.count for kernel in self._phase.kernels])
        dynamic_j = self.kernels_at(clock_mhz, mem_clock_mhz).dynamic_j
        return float(launches @ (dynamic_j * (1 - 1 / self._factors)))

    def _times(self, clock_mhz: int, mem_clock_mhz: int) -> "_Times":
        wait_s = 1.0 if self._phase is None else self._phase.wait_s
        if self._load is None:
            return _Times(execution_s=wait_s)
        slowdown = self._spec.mem_clocks_mhz[0] / mem_clock_mhz
        load = self._load.at(clock_mhz, memory_slowdown=slowdown)
        device_s = load.kernels_s + load.overhead_s + load.waits_s
        own_s = self._load.elapsed_s(device_s) + wait_s
        spins_s = max(0.0, self._until_s - own_s)
        return _Times(
            execution_s=own_s + spins_s,
            device_s=device_s + spins_s,
            on_sms_s=load.filled_s + OVERHEAD_SHARE * (load.overhead_s + spins_s),
            core_share=load.core_share,
            cache_b=self._load.cache_b,
            memory_b=self._load.memory_b,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    execution_s: float
    device_s: float = 0.0
    on_sms_s: float = 0.0
    core_share: float = 0.0
    cache_b: float = 0.0
    memory_b: float = 0.0


def _activity(
    spec: GpuSpec, times: _Times, rates: dict[Pipe, float], bandwidth_b_per_s: float
) -> Activity:
    sm_active = BUSY_SM_SHARE * times.on_sms_s / times.execution_s
    occupancy = times.core_share * _CORE_OCCUPANCY + (1 - times.core_share) * _MEMORY_OCCUPANCY
    return Activity(
        gr_engine_active=times.device_s / times.execution_s,
        sm_active=sm_active,
        sm_occupancy=sm_active * occupancy,
        tensor_active=sum(rate for pipe, rate in rates.items() if pipe.startswith("tensor")),
        dram_active=bandwidth_b_per_s / spec.memory_bandwidth_b_per_s,
        fp64_active=rates.get("fp64", 0.0),
        fp32_active=rates.get("fp32", 0.0),
        fp16_active=rates.get("fp16", 0.0),
    )
