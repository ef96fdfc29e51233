"""One GPU model: clocks, limits, peaks, sensors, and the coefficients of its power."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError
from joulelab.hardware.chip import ChipSpec, LinkSpec
from joulelab.registry import unknown_name

Status = Literal["S", "F", "D", "E"]
"""Sourced, fitted to measurements, derived from sourced figures, or estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a data file and where it comes from.

    Attributes:
        value: The figure, in the unit that its name carries.
        status: How far to trust it.
        source: Who says so.
    """

    value: Any
    status: Status
    source: str

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ConfigError(f"status must be one of {get_args(Status)}, got {self.status!r}.")
        if not self.source:
            raise ConfigError(f"The figure {self.value!r} has no source.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSpec:
    """What the board's own sensors show.

    Attributes:
        instant_update_s: Period at which the fastest power reading changes.
        instant_window_s: How much time before each change it averages.
        average_window_s: What the driver's averaged reading averages; ``None`` where it is
            the fast one.
        energy_tick_s: Period at which the energy counter steps.
        sample_period_s: Period of the power samples in the driver's buffer.
        sample_count: How many of them the buffer holds.
        has_memory_power: Whether the memory's own power can be read.
        has_activity: Whether unit activities can be counted.
    """

    instant_update_s: float
    instant_window_s: float
    average_window_s: float | None = None
    energy_tick_s: float
    sample_period_s: float
    sample_count: int
    has_memory_power: bool
    has_activity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalSpec:
    """Limits of temperature and how fast heat leaves.

    The die sits above the ambient by a sum of nodes, each a resistance with a time constant.

    Attributes:
        max_operating_c: Above it the driver steps clocks down.
        slowdown_c: Above it the hardware halves the clock.
        shutdown_c: Above it the board switches off.
        ambient_c: Inlet air.
        reference_c: Temperature at which the coefficients of :class:`PowerSpec` hold.
        resistance_k_per_w: Of each node.
        time_constant_s: Of each node.
    """

    max_operating_c: float
    slowdown_c: float
    shutdown_c: float
    ambient_c: float
    reference_c: float
    resistance_k_per_w: tuple[float, ...]
    time_constant_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoltageCurve:
    """Core voltage relative to its minimum, as a function of the SM clock.

    ``v(f) = 1 + slope x + curvature x^2`` with ``x = max(0, f - ridge)`` in GHz. Leakage that
    grows with voltage is folded in, so it is an effective curve.
    """

    ridge_mhz: float
    slope_per_ghz: float
    curvature_per_ghz2: float

    def at(self, clock_mhz: float) -> float:
        """Return voltage over minimum voltage at ``clock_mhz``, at least 1."""
        above_ghz = max(0.0, clock_mhz - self.ridge_mhz) / 1000.0
        return 1.0 + self.slope_per_ghz * above_ghz + self.curvature_per_ghz2 * above_ghz**2


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSpec:
    """Coefficients of board power; per-GHz ones are at minimum voltage.

    Attributes:
        constant_w: What no clock changes, memory refresh included.
        idle_w: Board power without a context at the low clock.
        clock_tree_w_per_ghz: Clock distribution.
        sm_w_per_ghz: All SMs busy, whatever they do.
        pipe_w_per_ghz: Each pipe at its peak rate, on random data.
        crossbar_j_per_b: Moving a byte between memory and SMs on the die.
        dram_j_per_b: Moving a byte in the memory and its links.
        memory_idle_w: Share of the memory in ``constant_w``.
        zeros_factor: What is left of pipe and crossbar energy when all operands are zero.
        leakage_w: Leakage at minimum voltage and reference temperature, contained in
            ``constant_w``; only its change with temperature is added.
        leakage_per_k: Relative growth of leakage per kelvin.
    """

    constant_w: float
    idle_w: float
    clock_tree_w_per_ghz: float
    sm_w_per_ghz: float
    pipe_w_per_ghz: Mapping[Pipe, float]
    crossbar_j_per_b: float
    dram_j_per_b: float
    memory_idle_w: float
    zeros_factor: float
    leakage_w: float
    leakage_per_k: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSpec:
    """How far programs get to the peaks, and how long the driver takes.

    Attributes:
        pipe_efficiency: Share of each pipe's peak that a large kernel reaches.
        memory_efficiency: Share of the memory bandwidth that a stream reaches.
        memory_knee_mhz: SM clock below which bandwidth falls in proportion.
        kernel_overhead_s: Filling and draining the device, per kernel.
        host_launch_s: Host time to launch one kernel from an eager framework.
        cache_flop_per_b: Operations per byte of memory traffic that blocking in L2 allows a
            kernel whose operands exceed the L2 cache.
        switch_latency_s: Median time until a clock change takes effect.
        set_call_s: Median time that the setter blocks.
        tensor_ceiling_start: Tensor activity beyond which the clock drops though the power
            limit is far; ``None`` where none was seen.
        tensor_ceiling_mhz: By how much per unit of activity beyond it.
        host_python: Time that Python takes on the host over what it takes on the host whose launch
            times these are; it moves apart from launching, which is compiled.
        elementwise_slowdown: Time of the elementwise kernels and copies of a network over that of
            a stream of as many bytes: they broadcast, convert, take strided operands and compute
            functions, where a stream only adds.
        reread_slowdown: Time of bytes that a kernel's own small blocks read again over that at
            the bandwidth of the last cache (H200: 4-bit products of many rows, in prefills of
            Llama-2-7B and in ViT-L, 1.7 to 1.8).
    """

    pipe_efficiency: Mapping[Pipe, float]
    memory_efficiency: float
    memory_knee_mhz: float
    kernel_overhead_s: float
    host_launch_s: float
    cache_flop_per_b: float
    switch_latency_s: float
    set_call_s: float
    tensor_ceiling_start: float | None = None
    tensor_ceiling_mhz: float = 0.0
    host_python: float = 1.0
    elementwise_slowdown: float = 1.0
    reread_slowdown: float = 1.75


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU model of the catalogue.

    Attributes:
        key: Its name in the catalogue, e.g. ``"h200_sxm"``.
        product_names: Product names as NVML gives them.
        architecture: Vendor's name of the architecture.
        sm_clocks_mhz: Every settable SM clock, descending.
        study_clocks_mhz: Those of the classic DVFS studies, descending; all where there is none.
        default_clock_mhz: Where an unlocked, uncapped device runs under load.
        stays_at_default: Whether every board of this kind then stays there exactly, so that a
            lower clock shows a lock; the optional figure ``clocks.stays_at_default``.
        idle_clock_mhz: Where it rests without a context.
        mem_clocks_mhz: Memory clocks, descending.
        mem_clock_lockable: Whether the memory clock can be set.
        power_limits_w: Lowest and highest settable power limit.
        default_power_limit_w: The limit after a reset.
        sm_count: Streaming multiprocessors.
        flop_per_clock_per_sm: Dense operations per clock and SM, for each pipe that exists.
        memory_bandwidth_b_per_s: Peak memory bandwidth at the highest memory clock.
        memory_b: Device memory as printed (decimal giga).
        l2_b: Level-2 cache.
        sensor: What its sensors show.
        thermal: Temperatures.
        voltage: Voltage curve.
        power: Coefficients of power.
        timing: Efficiencies and latencies.
        chip: Node, caches on the SMs, matrix tiles.
        link: Link to its peers.
        eager_launch_s: Host time to launch one kernel from eager PyTorch, by kind of kernel and
            ``"default"``; the optional section ``[eager_launch]``, empty without it.
        kind_efficiency: What kinds of kernels reach, relative to a large GEMM; the optional
            section ``[kind_efficiency]``, empty without it.
        figures: Every figure of the data file with its source, as ``"section.name"``.
    """

    key: str
    product_names: tuple[str, ...]
    architecture: str
    sm_clocks_mhz: tuple[int, ...]
    study_clocks_mhz: tuple[int, ...]
    default_clock_mhz: int
    stays_at_default: bool
    idle_clock_mhz: int
    mem_clocks_mhz: tuple[int, ...]
    mem_clock_lockable: bool
    power_limits_w: tuple[float, float]
    default_power_limit_w: float
    sm_count: int
    flop_per_clock_per_sm: Mapping[Pipe, float]
    memory_bandwidth_b_per_s: float
    memory_b: float
    l2_b: float
    sensor: SensorSpec
    thermal: ThermalSpec
    voltage: VoltageCurve
    power: PowerSpec
    timing: TimingSpec
    chip: ChipSpec
    link: LinkSpec
    eager_launch_s: Mapping[str, float]
    kind_efficiency: Mapping[str, float]
    figures: Mapping[str, Figure]

    @property
    def max_clock_mhz(self) -> int:
        """The highest SM clock."""
        return self.sm_clocks_mhz[0]

    def peak_flop_per_s(self, pipe: Pipe, clock_mhz: float | None = None) -> float:
        """Return the dense peak of ``pipe`` at ``clock_mhz``, by default the default clock.

        Raises:
            UnknownNameError: If this GPU has no such pipe; names those that it has.
        """
        if pipe not in self.flop_per_clock_per_sm:
            raise unknown_name(f"pipe of {self.key}", pipe, self.flop_per_clock_per_sm)
        clock_hz = (self.default_clock_mhz if clock_mhz is None else clock_mhz) * 1e6
        return self.sm_count * self.flop_per_clock_per_sm[pipe] * clock_hz

    def neighbours_mhz(self, clock_mhz: float) -> tuple[int, ...]:
        """Return the settable SM clocks next below and next above ``clock_mhz``.

        One clock if ``clock_mhz`` is itself settable or lies beyond an end of the grid.
        """
        if clock_mhz in self.sm_clocks_mhz:
            return (int(clock_mhz),)
        below = [clock for clock in self.sm_clocks_mhz if clock < clock_mhz]
        above = [clock for clock in self.sm_clocks_mhz if clock > clock_mhz]
        return tuple([max(below)] if below else []) + tuple([min(above)] if above else [])
