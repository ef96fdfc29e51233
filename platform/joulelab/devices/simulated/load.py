"""What the kernels of a phase take of a GPU, priced as the estimator prices them.

Both have one system of times: shapes that fill the device or do not, caches, kinds of kernels that
stay behind a large product, and what each kind costs the host that launches it. A kernel that
says no more than its operations and bytes is taken for a large one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import KernelCost, PhaseCost, Pipe
from joulelab.core.power_law import (
    EAGER_GAP_S,
    HOST_CALL_SHARE,
    LOOP_LAUNCH_SHARE,
    OVERHEAD_SHARE,
    PLAIN_CONVOLUTION_SHARE,
    SCALED_PRODUCT_LAUNCHES,
    STEP_S,
    roofline_s,
)
from joulelab.errors import ConfigError
from joulelab.estimator.pricing.roofline import (
    LINK,
    GroupCosts,
    group_costs,
    kernel_s,
    memory_side_s,
)
from joulelab.estimator.pricing.table import kind_name, tabulate
from joulelab.hardware import GpuSpec
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import processor_of
from joulelab.hardware.scalars import SECTION, calibrated
from joulelab.tracing.fusion import unfused
from joulelab.tracing.precision import dtype_on
from joulelab.tracing.program import ALL_REDUCE, Kind, MatrixShape, Operator, Program

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_KINDS = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimes:
    """All kernels of a phase, one after the other, at one pair of clocks."""

    kernels_s: float  # time in which they compute or move
    filled_s: float  # the same, weighted with the share of the units that has work
    # Time in which they fill and drain the device, change a layout, or wait in blocks on all units
    # for one load after the other.
    overhead_s: float
    waits_s: float  # time in which loops on a few units wait for one load after the other
    core_share: float  # share of the units in what they need of units and memories together


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLoads:
    """What a launch of each kernel of a phase takes, in the phase's order; shape ``(n,)`` each."""

    device_s: Array  # time on the device
    on_sms_s: Array  # time in which units are busy, weighted with the share that has work
    flop: dict[Pipe, Array]
    cache_b: Array  # bytes that pass through the last cache
    memory_b: Array  # bytes that reach the device memory
    link_j: Array  # energy on the link to other devices


class Load:
    """The kernels of a phase on a kind of GPU, at any clock.

    Attributes:
        host_s: Time that the host takes to reach and launch them.
        link_j: Energy that an execution takes on the link to other devices.

    Raises:
        ConfigError: If a kernel needs a pipe that the GPU lacks; names those it has.
    """

    def __init__(self, spec: GpuSpec, phase: PhaseCost) -> None:
        for kernel in phase.kernels:
            _require_pipe(spec, kernel)
        self._spec, self._processor = spec, _processor(spec, phase)
        self._is_mixed = len(phase.kernels) > 1
        program = Program(
            operators=tuple(_operator(kernel) for kernel in phase.kernels),
            parameter_b=phase.parameter_b or np.inf,
        )
        table = tabulate(program, unfused(program))
        costs = group_costs(table, self._processor, phase.num_devices)
        costs = self._with_rereads(costs, table.sequence, phase.kernels)
        in_graphs = f"{SECTION}.timing.kernel_overhead_s" in spec.figures
        gap_s = EAGER_GAP_S if in_graphs and not phase.num_graphs else 0.0  # lacking in graphs
        self._costs = replace(costs, fixed_s=costs.fixed_s + gap_s)
        self._sequence = table.sequence
        self._waits_s = np.array([STEP_S * kernel.steps for kernel in phase.kernels])
        self._is_norm = np.array([kernel.name == "norm" for kernel in phase.kernels])
        launches = np.array([float(kernel.count) for kernel in phase.kernels])
        self._counts = np.bincount(table.sequence, launches, table.num_rows)
        self._norm_waits_s = _waits_s(one for one in phase.kernels if one.name == "norm")
        self._loop_waits_s = _waits_s(one for one in phase.kernels if one.name != "norm")
        self.host_s = self._host_s(phase, [table.operators[row] for row in table.main])
        cache, memory = self._processor.last_cache.name, self._processor.memory.name
        self.flop = {pipe: float(one @ self._counts) for pipe, one in self._costs.flop.items()}
        self.cache_b = float(self._costs.moved_b[cache] @ self._counts)
        self.memory_b = float(self._costs.moved_b[memory] @ self._counts)
        links_b = self._costs.moved_b.get(LINK, np.zeros(table.num_rows))
        self._link_j = self._processor.link_byte_j * links_b
        self.link_j = float(self._link_j @ self._counts)

    def at(self, clock_mhz: float, *, memory_slowdown: float = 1.0) -> LoadTimes:
        """Return the times at ``clock_mhz`` with a memory slowed by its own clock."""
        costs, core_s, memory_s = self._sides(clock_mhz, memory_slowdown)
        work_s = kernel_s(core_s, memory_s)
        needed_s = float((core_s + memory_s) @ self._counts)
        return LoadTimes(
            kernels_s=float(work_s @ self._counts),
            filled_s=float((costs.fill * work_s) @ self._counts),
            overhead_s=float(costs.fixed_s @ self._counts) + self._norm_waits_s,
            waits_s=self._loop_waits_s,
            core_share=float(core_s @ self._counts) / needed_s if needed_s else 0.0,
        )

    def by_kernel(self, clock_mhz: float, *, memory_slowdown: float = 1.0) -> KernelLoads:
        """Return what :meth:`at` sums up, launch by launch."""
        costs, core_s, memory_s = self._sides(clock_mhz, memory_slowdown)
        rows, cache, memory = self._sequence, self._processor.last_cache, self._processor.memory
        work_s = kernel_s(core_s, memory_s)[rows]
        fixed_s = costs.fixed_s[rows]
        # Blocks of a norm that wait hold all units; loops on a few units leave the rest alone.
        overhead_s = fixed_s + self._waits_s * self._is_norm
        return KernelLoads(
            device_s=work_s + fixed_s + self._waits_s,
            on_sms_s=costs.fill[rows] * work_s + OVERHEAD_SHARE * overhead_s,
            flop={pipe: one[rows] for pipe, one in costs.flop.items()},
            cache_b=costs.moved_b[cache.name][rows],
            memory_b=costs.moved_b[memory.name][rows],
            link_j=self._link_j[rows],
        )

    def _sides(self, clock_mhz: float, memory_slowdown: float) -> tuple[GroupCosts, Array, Array]:
        """Return the costs of distinct kernels, and their times in the units and the memory."""
        costs = replace(self._costs, memory_s=memory_slowdown * self._costs.memory_s)
        clocks_mhz = np.full(len(self._counts), clock_mhz)
        memory_s = memory_side_s(costs, self._processor, clocks_mhz)
        return costs, costs.core_s_mhz / clock_mhz, memory_s

    def elapsed_s(self, device_s: float) -> float:
        """Return the time of an execution that keeps the device busy for ``device_s``.

        Of equal kernels, the slower of host and device sets the pace. Of various ones, now the one
        and now the other does, and a queue evens that out in part.
        """
        if self._is_mixed:
            return roofline_s(device_s, self.host_s)
        return max(device_s, self.host_s)

    def _with_rereads(
        self, costs: GroupCosts, rows: Index, kernels: Sequence[KernelCost]
    ) -> GroupCosts:
        """Add the time of bytes read again; they draw next to nothing.

        4-bit products of many rows draw 335 to 404 W on an H200, no more than busy units alone:
        their blocks presumably share what neighbours on one unit have read.
        """
        again_b = np.zeros(len(costs.cache_s))
        again_b[rows] = [kernel.reread_b for kernel in kernels]
        cache, timing = self._processor.last_cache, self._processor.timing
        bandwidth_b_per_s = timing.memory_efficiency * cache.bandwidth_b_per_s
        again_s = self._spec.timing.reread_slowdown * again_b / bandwidth_b_per_s
        return replace(costs, cache_s=costs.cache_s + again_s)

    def _host_s(self, phase: PhaseCost, launched: list[Operator]) -> float:
        timing, python = self._processor.timing, self._spec.timing.host_python
        calls_s = python * phase.host_calls * HOST_CALL_SHARE * timing.launch_s("default")
        if phase.num_graphs:
            return calls_s + phase.num_graphs * timing.launch_s("default")
        launches_s = [_launches(one) * timing.launch_s(kind_name(one)) for one in launched]
        # Launches that were lengthened to those of chains hold Python as well.
        is_lengthened = f"{SECTION}.timing.eager_launch_s.default" in self._spec.figures
        alone = LOOP_LAUNCH_SHARE if is_lengthened else 1.0
        around = python * (1 - alone) if self._is_mixed else 0.0
        return calls_s + (alone + around) * float(np.array(launches_s) @ self._counts)


def _launches(operator: Operator) -> float:
    is_scaled = operator.kind == "gemm" and operator.pipe == "tensor_fp8"
    return SCALED_PRODUCT_LAUNCHES if is_scaled else 1.0


def _waits_s(kernels: Iterable[KernelCost]) -> float:
    return STEP_S * sum(kernel.count * kernel.steps for kernel in kernels)


_MOST_KNOWN = 64
_KNOWN: dict[int, tuple[GpuSpec, Processor]] = {}
"""By the identity of a GPU, which has no hash and stays here, so that no other one takes it."""


def calibrated_gpu(spec: GpuSpec) -> Processor:
    """Return the GPU with what its data file has in ``[calibrated]``, put together once."""
    known = _KNOWN.get(id(spec))  # a simulated GPU asks at every phase that it plays
    if known is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(spec)] = spec, calibrated(processor_of(spec))
    return known[1]


def _processor(spec: GpuSpec, phase: PhaseCost) -> Processor:
    """Return the GPU with what micro-benchmarks gave in place of estimates.

    Rates that were measured before stay: the coefficients of power were fitted together with them.
    """
    processor = calibrated_gpu(spec)
    rates = {
        pipe: processor.timing.pipe_efficiency[pipe] if _is_estimated(spec, pipe) else rate
        for pipe, rate in spec.timing.pipe_efficiency.items()
    }
    timing = replace(
        processor.timing,
        kind_efficiency=_kind_efficiency(spec, processor, phase),
        pipe_efficiency=rates,
        memory_efficiency=spec.timing.memory_efficiency,
    )
    return replace(processor, timing=timing)


def _kind_efficiency(spec: GpuSpec, processor: Processor, phase: PhaseCost) -> dict[str, float]:
    """Return the efficiencies by kind; convolutions of fp32 were measured on the units of TF32."""
    reached = processor.timing.efficiency
    changed = dict(processor.timing.kind_efficiency)
    is_plain = any(kernel.name == "conv" and kernel.pipe == "fp32" for kernel in phase.kernels)
    if "tensor_tf32" in spec.flop_per_clock_per_sm and is_plain:
        changed["conv_float32"] = PLAIN_CONVOLUTION_SHARE * reached(("conv",), "float32")
    if len(phase.kernels) > 1:
        for kind in ("elementwise", "copy"):
            changed[kind] = reached((kind,), "") / spec.timing.elementwise_slowdown
    return changed


def _is_estimated(spec: GpuSpec, pipe: Pipe) -> bool:
    figure = spec.figures.get(f"pipe_efficiency.{pipe}")
    return figure is not None and figure.status == "E"


def _require_pipe(spec: GpuSpec, kernel: KernelCost) -> None:
    if kernel.pipe not in spec.flop_per_clock_per_sm:
        raise ConfigError(
            f"Kernel {kernel.name!r} needs {kernel.pipe}, which {spec.product_names[0]} lacks; "
            f"it has {', '.join(spec.flop_per_clock_per_sm)}."
        )


def _operator(kernel: KernelCost) -> Operator:
    return Operator(
        name=kernel.name,
        kind=_kind(kernel.name),
        pipe=kernel.pipe,
        dtype=kernel.dtype or dtype_on(kernel.pipe),
        flop=kernel.flop,
        read_b=kernel.read_b,
        weight_b=kernel.weight_b,
        written_b=kernel.written_b,
        shape=_shape(kernel),
    )


def _kind(name: str) -> Kind:
    if name == ALL_REDUCE:
        return "copy"
    return name if name in _KINDS else "gemm"  # type: ignore[return-value]


def _shape(kernel: KernelCost) -> MatrixShape | None:
    if kernel.shape is None:
        return None
    batch, m, n, k = (max(1, round(size)) for size in kernel.shape)
    return MatrixShape(batch=batch, m=m, n=n, k=k)
