"""What the estimator knows of any processor: units, memory levels, power, and where from.

CPUs, TPUs and KPUs have a data file each in this form; a GPU's follows from its
:class:`~joulelab.hardware.spec.GpuSpec`, so that simulator and estimator share every figure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from joulelab.core import power_law
from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError
from joulelab.registry import unknown_name

Family = Literal["cpu", "gpu", "tpu", "kpu"]
"""How it executes: stored program, SIMT, systolic array, or domain flow."""

Tier = Literal["A", "B", "C", "D"]
"""Calibrated on it; on its class; datasheet alone; projected, without silicon."""

Status = Literal["S", "F", "D", "E", "U"]
"""Sourced, fitted to measurements, derived from sourced figures, estimated, or stated by a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a data file, in the unit that its name carries, and where it comes from."""

    value: Any
    status: Status
    source: str

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ConfigError(f"status must be one of {get_args(Status)}, got {self.status!r}.")
        if not self.source:
            raise ConfigError(f"The figure {self.value!r} has no source.")


_Clock = TypeVar("_Clock", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True, kw_only=True)
class VoltageCurve:
    """Core voltage relative to its minimum, as a function of the SM clock.

    ``v(f) = 1 + slope x + curvature x^2`` with ``x = max(0, f - ridge)`` in GHz. Leakage that
    grows with voltage is folded in, so it is an effective curve.
    """

    ridge_mhz: float
    slope_per_ghz: float
    curvature_per_ghz2: float

    def at(self, clock_mhz: _Clock) -> _Clock:
        """Return voltage over minimum voltage at a clock, or at each of an array; at least 1."""
        above_ghz = power_law.height(clock_mhz, self.ridge_mhz, 1000.0)
        return power_law.voltage(above_ghz, self.slope_per_ghz, self.curvature_per_ghz2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevel:
    """One level of the memory hierarchy, the whole device together."""

    name: str  # e.g. "register file", "L1", "shared memory", "unified buffer"
    size_b: float
    bandwidth_b_per_s: float  # its peak at the default clock
    # Energy of moving one byte to or from it, beyond what is always on, at minimum voltage. That of
    # the last cache and the main memory adds to power, and a byte of the main memory passes the
    # last cache as well; that of levels nearer to the units is contained in flop_j and serves to
    # share it out. 0 where measurements cannot separate it.
    byte_j: float
    # Whether its bandwidth goes with the core clock and its energy with the core voltage squared.
    on_core_clock: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixEngine:
    """The shape in which matrix work fills the device."""

    # Engines that work side by side: SMs of a GPU, cores of a CPU, arrays of a TPU, tiles of a KPU.
    num_engines: int
    # Result blocks (rows, columns, relative speed at full use 0..1) that one engine works on at a
    # time, of which the best fitting is taken.
    tiles: tuple[tuple[int, int, float], ...]
    depth: int = 0  # steps to fill and drain an engine, in rows streamed; 0 where that is hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorPower:
    """Coefficients of power. Those per GHz and per operation are at minimum voltage.

    ``P = constant + v^2 (f (clock + busy a) + operations + on-die bytes) + memory bytes``
    with the voltage curve v(f), the core clock f and the busy share a: 1 while a large kernel
    runs, 0 while the device waits.
    """

    idle_w: float  # at rest, without any program
    constant_w: float  # what no clock changes while a program is loaded, memory refresh included
    clock_w_per_ghz: float  # clock distribution while a program is loaded, busy or waiting
    busy_w_per_ghz: float  # all cores busy, whatever they do
    # Energy of one operation on each pipe, on random data, with what feeds it: registers and the
    # caches nearer than the last one.
    flop_j: Mapping[Pipe, float]
    # What is left of operation energy when all operands are zero, 0..1: the low end of the band
    # that data alone opens.
    zeros_factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorTiming:
    """How far programs get to the peaks, and what launching them takes."""

    # Share of each pipe's peak that large, well-shaped work reaches.
    pipe_efficiency: Mapping[Pipe, float]
    memory_efficiency: float  # share of the main memory's bandwidth that a stream reaches
    memory_knee_mhz: float  # core clock below which that bandwidth falls in proportion
    kernel_overhead_s: float  # least time on the device of a kernel: filling and draining it
    # Host time to launch one kernel from eager PyTorch, by kind or class of kernel; "default" for
    # those that are not named.
    eager_launch_s: Mapping[str, float]
    graph_launch_s: float  # time between kernels of a captured graph or a compiled program
    # Further factor on the reached peak for kinds that stay behind a large GEMM or, where they
    # compute little, behind a copy, e.g. {"conv": 0.7}, or for classes within networks, e.g.
    # {"layer_norm": 0.3}, which come first; with a number format for that one alone:
    # "conv_float32"; 1 where absent.
    kind_efficiency: Mapping[str, float] = field(default_factory=dict)
    # Operations per byte of main-memory traffic that blocking in the last cache allows a product of
    # two-byte elements whose operands exceed it.
    cache_flop_per_b: float = math.inf
    # Share of the matrix peak beyond which the clock drops though the power limit is far; None
    # where none was seen.
    tensor_ceiling_start: float | None = None
    tensor_ceiling_mhz: float = 0.0  # by how much per unit of that share beyond it
    # kernel_overhead_s of kernels that multiply no matrices, where it is known to differ: they have
    # no long pipeline to fill.
    stream_overhead_s: float | None = None
    # Share of a stream's bandwidth at which activations of convolutions are brought into the layout
    # of the matrix units, and back; None if they need not be.
    layout_efficiency: float | None = None
    # Least time of a convolution on matrix units for each element of a window (input channels times
    # kernel size), over which its sums run one after the other.
    window_s: float = 0.0
    # Least time of a kernel within a network, by its class, in place of the two overheads.
    least_s: Mapping[str, float] = field(default_factory=dict)
    module_s: float = 0.0  # host time that entering a module takes
    view_s: float = 0.0  # host time of a call that launches no kernel
    # Host time of a step of training over that of its kernels in inference.
    training_launch: float = 1.0

    def launch_s(self, *kinds: str) -> float:
        """Return the host time to launch a kernel of the first known of ``kinds`` eagerly."""
        known = self.eager_launch_s
        return next((known[kind] for kind in kinds if kind in known), known["default"])

    def overhead_s(self, classes: Sequence[str], is_matrix: bool) -> float:
        """Return the least time of the first known of ``classes``, else of matrix work or not."""
        for kernel_class in classes:
            if kernel_class in self.least_s:
                return self.least_s[kernel_class]
        if is_matrix or self.stream_overhead_s is None:
            return self.kernel_overhead_s
        return self.stream_overhead_s

    def efficiency(self, kinds: Sequence[str], dtype: str) -> float:
        """Return the factor of the first known of ``kinds`` on operands of PyTorch's ``dtype``."""
        known = self.kind_efficiency
        names = (name for kind in kinds for name in (f"{kind}_{dtype}", kind))
        return next((known[name] for name in names if name in known), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """One processor."""

    key: str  # its name in the catalogue, e.g. "xeon_8490h"
    product_name: str
    family: Family
    architecture: str
    node_nm: float  # process node, as marketed
    tier: Tier  # how far its figures are calibrated
    # Lowest, default and highest core clock; the default is where it runs unlocked under sustained
    # load.
    clocks_mhz: tuple[float, float, float]
    num_cores: int  # SMs of a GPU, cores of a CPU or TPU, tiles of a KPU
    # Dense operations per clock of the whole device, for each pipe it has. The tensor_ pipes are
    # its matrix or dot-product units of whatever name.
    flop_per_clock: Mapping[Pipe, float]
    engine: MatrixEngine
    # Memory levels, nearest to the units first; the last is the main memory.
    levels: tuple[MemoryLevel, ...]
    power_limits_w: tuple[float, float]  # lowest and highest power limit
    default_power_limit_w: float  # power limit unless another is set
    voltage: VoltageCurve
    power: ProcessorPower
    timing: ProcessorTiming
    # Bandwidth per direction to its peers, for tensor parallelism; 0 if none.
    link_b_per_s: float = 0.0
    link_byte_j: float = 0.0  # energy of moving one byte to a peer
    link_awake_w: float = 0.0  # power of its links while they are in use, however little
    # Every figure of its data file with its source, as "section.name".
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def default_clock_mhz(self) -> float:
        """Core clock unless another is set."""
        return self.clocks_mhz[1]

    @property
    def memory(self) -> MemoryLevel:
        """The main memory."""
        return self.levels[-1]

    @property
    def last_cache(self) -> MemoryLevel:
        """The largest level on the die."""
        return self.levels[-2]

    def sharing(self, num_devices: int) -> "Processor":
        """Return it as one of some that share a program: then its links are awake all the time."""
        if num_devices == 1 or not self.link_awake_w:
            return self
        constant_w = self.power.constant_w + self.link_awake_w
        return replace(self, power=replace(self.power, constant_w=constant_w))

    def peak_flop_per_s(self, pipe: Pipe, clock_mhz: float | None = None) -> float:
        """Return the dense peak at a clock, by default its own; UnknownNameError without a pipe."""
        if pipe not in self.flop_per_clock:
            raise unknown_name(f"pipe of {self.key}", pipe, self.flop_per_clock)
        clock_hz = (self.default_clock_mhz if clock_mhz is None else clock_mhz) * 1e6
        return self.flop_per_clock[pipe] * clock_hz
