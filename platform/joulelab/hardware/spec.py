"""One GPU model: clocks, limits, peaks, sensors, and the coefficients of its power."""

from collections.abc import Mapping
from dataclasses import dataclass

from joulelab.core.cost import Pipe
from joulelab.hardware.processor import Figure, ProcessorTiming, Tier, VoltageCurve
from joulelab.registry import unknown_name

BUSY_SM_SHARE = 0.96
"""SM activity of a large GEMM (H200, GPM: 95 to 99 %)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSpec:
    """What the board's own sensors show."""

    instant_update_s: float  # period at which the fastest power reading changes
    instant_window_s: float  # how much time before each change it averages
    # What the driver's averaged reading averages; None where it is the fast one.
    average_window_s: float | None = None
    energy_tick_s: float  # period at which the energy counter steps
    sample_period_s: float  # period of the power samples in the driver's buffer
    sample_count: int  # how many of them the buffer holds
    has_memory_power: bool
    has_activity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalSpec:
    """Limits of temperature and how fast heat leaves.

    The die sits above the ambient by a sum of nodes, each a resistance with a time constant.
    """

    max_operating_c: float  # above it the driver steps clocks down
    slowdown_c: float  # above it the hardware halves the clock
    shutdown_c: float  # above it the board switches off
    ambient_c: float  # inlet air
    reference_c: float  # temperature at which the coefficients of PowerSpec hold
    resistance_k_per_w: tuple[float, ...]  # of each node
    time_constant_s: tuple[float, ...]  # of each node


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSpec:
    """Coefficients of board power; per-GHz ones are at minimum voltage."""

    constant_w: float  # what no clock changes, memory refresh included
    idle_w: float  # board power without a context at the low clock
    clock_tree_w_per_ghz: float  # clock distribution
    sm_w_per_ghz: float  # all SMs busy, whatever they do
    pipe_w_per_ghz: Mapping[Pipe, float]  # each pipe at its peak rate, on random data
    crossbar_j_per_b: float  # moving a byte between memory and SMs on the die
    dram_j_per_b: float  # moving a byte in the memory and its links
    memory_idle_w: float  # share of the memory in constant_w
    zeros_factor: float  # what is left of pipe and crossbar energy when all operands are zero
    # Leakage at minimum voltage and reference temperature, contained in constant_w; only its change
    # with temperature is added.
    leakage_w: float
    leakage_per_k: float  # relative growth of leakage per kelvin


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSpec(ProcessorTiming):
    """The timing of a GPU, and what besides a simulated one needs."""

    switch_latency_s: float  # median time until a clock change takes effect
    set_call_s: float  # median time that the setter blocks
    # Time that Python takes on the host over what it takes on the host whose launch times these
    # are; it moves apart from launching, which is compiled.
    host_python: float = 1.0
    # Time of the elementwise kernels and copies of a network over that of a stream of as many
    # bytes: they broadcast, convert, take strided operands and compute functions, where a stream
    # only adds.
    elementwise_slowdown: float = 1.0
    # Time of bytes that a kernel's own small blocks read again over that at the bandwidth of the
    # last cache (H200: 4-bit products of many rows, in prefills of Llama-2-7B and in ViT-L, 1.7 to
    # 1.8).
    reread_slowdown: float = 1.75


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipSpec:
    """What the chip holds besides its pipes: what kernels are priced with, simulated or estimated.

    Attributes:
        node_nm: Process node, as marketed.
        tier: How far the figures of this GPU are calibrated.
        register_file_b: Register file of one SM.
        register_b_per_clock: Operand bytes that one SM reads and writes per clock.
        register_byte_j: Energy of a register byte at minimum voltage.
        shared_b: L1 cache and shared memory of one SM; the next two are its own.
        l2_b_per_clock: Bandwidth of the whole L2 cache.
        tiles: Result blocks (rows, columns, relative speed) that one SM works on.
    """

    node_nm: float
    tier: Tier
    register_file_b: float
    register_b_per_clock: float
    register_byte_j: float
    shared_b: float
    shared_b_per_clock: float
    shared_byte_j: float
    l2_b_per_clock: float
    tiles: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The link to other GPUs of a node: per direction, 0 without one; energy per byte."""

    bandwidth_b_per_s: float
    byte_j: float
    awake_w: float = 0.0  # what all links of a GPU draw awake beyond asleep; 0 where not known


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU model of the catalogue."""

    key: str  # its name in the catalogue, e.g. "h200_sxm"
    product_names: tuple[str, ...]  # as NVML gives them
    architecture: str
    sm_clocks_mhz: tuple[int, ...]  # every settable SM clock, descending
    # Those of the classic DVFS studies, descending; all where there is none.
    study_clocks_mhz: tuple[int, ...]
    default_clock_mhz: int  # where an unlocked, uncapped device runs under load
    # Whether every board of this kind then stays there exactly, so that a lower clock shows a lock;
    # the optional figure clocks.stays_at_default.
    stays_at_default: bool
    idle_clock_mhz: int  # where it rests without a context
    mem_clocks_mhz: tuple[int, ...]  # memory clocks, descending
    mem_clock_lockable: bool
    power_limits_w: tuple[float, float]  # lowest and highest settable power limit
    default_power_limit_w: float  # the limit after a reset
    sm_count: int
    # Dense operations per clock and SM, for each pipe that exists.
    flop_per_clock_per_sm: Mapping[Pipe, float]
    memory_bandwidth_b_per_s: float  # peak memory bandwidth at the highest memory clock
    memory_b: float  # device memory as printed (decimal giga)
    l2_b: float
    sensor: SensorSpec
    thermal: ThermalSpec
    voltage: VoltageCurve
    power: PowerSpec
    timing: TimingSpec
    chip: ChipSpec
    link: LinkSpec
    # Every figure of the data file with its source, as "section.name".
    figures: Mapping[str, Figure]

    @property
    def max_clock_mhz(self) -> int:
        """The highest SM clock."""
        return self.sm_clocks_mhz[0]

    def has_sms_of(self, other: "GpuSpec") -> bool:
        """Whether both are built of the same SMs: those of an A100 are not those of an A40."""
        return (self.architecture, dict(self.flop_per_clock_per_sm)) == (
            other.architecture,
            dict(other.flop_per_clock_per_sm),
        )

    def peak_flop_per_s(self, pipe: Pipe, clock_mhz: float | None = None) -> float:
        """Return the dense peak at a clock, by default its own; UnknownNameError without a pipe."""
        if pipe not in self.flop_per_clock_per_sm:
            raise unknown_name(f"pipe of {self.key}", pipe, self.flop_per_clock_per_sm)
        clock_hz = (self.default_clock_mhz if clock_mhz is None else clock_mhz) * 1e6
        return self.sm_count * self.flop_per_clock_per_sm[pipe] * clock_hz
