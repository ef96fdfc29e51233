"""What one phase of a program takes of a GPU, as a function of its clocks.

Time per kernel is a roofline whose corner is rounded by a fourth-power mean; power is
``P0 + f v(f)^2 (clock tree + busy SMs + busy pipes) + bytes``, the one form that fits the public
clock sweeps of V100, A100 and A40 to 1 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from joulelab.core.cost import Data, KernelCost, PhaseCost, Pipe
from joulelab.core.device import Activity
from joulelab.core.physics import OVERHEAD_SHARE, roofline_s
from joulelab.errors import ConfigError
from joulelab.hardware import GpuSpec
from joulelab.hardware.chip import BUSY_SM_SHARE

_CORE_OCCUPANCY, _MEMORY_OCCUPANCY = 0.14, 0.80
"""Occupancy of GEMM and of copy kernels on the H200 (GPM)."""
_ELEMENT_B: dict[Pipe, int] = {
    "fp64": 8,
    "tensor_fp64": 8,
    "fp32": 4,
    "tensor_tf32": 4,
    "tensor_fp8": 1,
    "tensor_int8": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """A phase at one pair of clocks.

    Attributes:
        duration_s: One execution.
        power_w: Board power at the reference temperature.
        memory_w: The memory's share of it.
        leakage_w: Leakage at the reference temperature and this voltage, for its change.
        activity: Mean unit activities.
    """

    duration_s: float
    power_w: float
    memory_w: float
    leakage_w: float
    activity: Activity


class PhaseModel:
    """A phase on one board, at any clock.

    Args:
        spec: Kind of GPU.
        phase: What to execute; ``None`` is a device that nobody uses.
        data: What the operands hold.
        voltage_scale: This board's voltage relative to its kind's.

    Raises:
        ConfigError: If a kernel needs a pipe that the GPU lacks; names those it has.
    """

    def __init__(
        self,
        spec: GpuSpec,
        phase: PhaseCost | None,
        *,
        data: Data = "random",
        voltage_scale: float = 1.0,
    ) -> None:
        self._spec = spec
        self._phase = phase
        self._toggle = 1.0 if data == "random" else spec.power.zeros_factor
        self._voltage_scale = voltage_scale
        self._points: dict[tuple[int, int], LoadPoint] = {}
        kernels = () if phase is None else phase.kernels
        self._kernels = [_Kernel(spec, kernel) for kernel in kernels]
        self._dram_b = sum(kernel.dram_b * kernel.count for kernel in self._kernels)
        self._flop = dict.fromkeys(spec.flop_per_clock_per_sm, 0.0)
        for kernel in kernels:
            self._flop[kernel.pipe] += kernel.flop * kernel.count

    @property
    def has_kernels(self) -> bool:
        """Whether it computes at all, and does not only wait."""
        return bool(self._kernels)

    def at(self, clock_mhz: int, mem_clock_mhz: int) -> LoadPoint:
        """Return the phase at these clocks."""
        key = (clock_mhz, mem_clock_mhz)
        point = self._points.get(key)
        if point is None:
            point = self._points[key] = self._point(clock_mhz, mem_clock_mhz)
        return point

    def _point(self, clock_mhz: int, mem_clock_mhz: int) -> LoadPoint:
        times = self._times(clock_mhz, mem_clock_mhz)
        rates = {
            pipe: flop / times.execution_s / self._spec.peak_flop_per_s(pipe, clock_mhz)
            for pipe, flop in self._flop.items()
            if flop
        }
        bandwidth = self._dram_b / times.execution_s
        activity = _activity(self._spec, times, rates, bandwidth)
        sm_active = activity.sm_active or 0.0
        power = self._spec.power
        voltage2 = (self._spec.voltage.at(clock_mhz) * self._voltage_scale) ** 2
        pipes_w_per_ghz = sum(power.pipe_w_per_ghz[pipe] * rate for pipe, rate in rates.items())
        per_ghz_w = power.clock_tree_w_per_ghz + power.sm_w_per_ghz * sm_active
        per_ghz_w += self._toggle * pipes_w_per_ghz
        core_w = voltage2 * (
            clock_mhz / 1000 * per_ghz_w + self._toggle * power.crossbar_j_per_b * bandwidth
        )
        dram_w = power.dram_j_per_b * bandwidth
        return LoadPoint(
            duration_s=times.execution_s,
            power_w=power.constant_w + core_w + dram_w,
            memory_w=power.memory_idle_w + dram_w,
            leakage_w=power.leakage_w * voltage2,
            activity=activity,
        )

    def _times(self, clock_mhz: int, mem_clock_mhz: int) -> "_Times":
        timing = self._spec.timing
        memory_slowdown = max(1.0, timing.memory_knee_mhz / clock_mhz)
        memory_slowdown *= self._spec.mem_clocks_mhz[0] / mem_clock_mhz
        kernels_s = core_s = memory_s = 0.0
        for kernel in self._kernels:
            on_core_s = kernel.core_s_mhz / clock_mhz
            in_memory_s = kernel.memory_s * memory_slowdown
            kernels_s += kernel.count * roofline_s(on_core_s, in_memory_s)
            core_s += kernel.count * on_core_s
            memory_s += kernel.count * in_memory_s
        num_launches = 0 if self._phase is None else self._phase.num_launches
        overhead_s = num_launches * timing.kernel_overhead_s
        wait_s = 1.0 if self._phase is None else self._phase.wait_s
        host_s = num_launches * timing.host_launch_s
        return _Times(
            execution_s=max(kernels_s + overhead_s, host_s) + wait_s,
            kernels_s=kernels_s,
            overhead_s=overhead_s,
            core_share=core_s / (core_s + memory_s) if kernels_s else 0.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    execution_s: float
    kernels_s: float
    overhead_s: float
    core_share: float


class _Kernel:
    """A kernel's cost in seconds: on the SMs at 1 MHz, and in the memory at full clocks."""

    __slots__ = ("core_s_mhz", "count", "dram_b", "memory_s")

    def __init__(self, spec: GpuSpec, kernel: KernelCost) -> None:
        if kernel.pipe not in spec.flop_per_clock_per_sm:
            raise ConfigError(
                f"Kernel {kernel.name!r} needs {kernel.pipe}, which {spec.product_names[0]} lacks; "
                f"it has {', '.join(spec.flop_per_clock_per_sm)}."
            )
        reached = spec.timing.pipe_efficiency[kernel.pipe] * spec.peak_flop_per_s(kernel.pipe, 1)
        self.count = kernel.count
        self.core_s_mhz = kernel.flop / reached
        self.dram_b = _traffic_b(spec, kernel)
        self.memory_s = self.dram_b / (
            spec.timing.memory_efficiency * spec.memory_bandwidth_b_per_s
        )


def _traffic_b(spec: GpuSpec, kernel: KernelCost) -> float:
    """Return the bytes that reach the memory.

    Operands beyond the L2 cache are read again: blocking in a cache of size S allows an
    intensity that goes with sqrt(S) and with element size to the power -3/2.
    """
    if kernel.dram_b <= spec.l2_b:
        return kernel.dram_b
    scale = float((2 / _ELEMENT_B.get(kernel.pipe, 2)) ** 1.5)
    return max(kernel.dram_b, kernel.flop / (spec.timing.cache_flop_per_b * scale))


def _activity(
    spec: GpuSpec, times: _Times, rates: dict[Pipe, float], bandwidth_b_per_s: float
) -> Activity:
    on_sms_s = times.kernels_s + OVERHEAD_SHARE * times.overhead_s
    sm_active = BUSY_SM_SHARE * on_sms_s / times.execution_s
    occupancy = _mix(times.core_share, (_CORE_OCCUPANCY, _MEMORY_OCCUPANCY))
    return Activity(
        gr_engine_active=(times.kernels_s + times.overhead_s) / times.execution_s,
        sm_active=sm_active,
        sm_occupancy=sm_active * occupancy,
        tensor_active=sum(rate for pipe, rate in rates.items() if pipe.startswith("tensor")),
        dram_active=bandwidth_b_per_s / spec.memory_bandwidth_b_per_s,
        fp64_active=rates.get("fp64", 0.0),
        fp32_active=rates.get("fp32", 0.0),
        fp16_active=rates.get("fp16", 0.0),
    )


def _mix(share: float, ends: Sequence[float]) -> float:
    return share * ends[0] + (1 - share) * ends[1]
