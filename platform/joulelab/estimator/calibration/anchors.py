"""Micro-benchmarks: what was measured, what breaks physics, and what the estimator says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W, check_range
from joulelab.core.cost import Pipe
from joulelab.core.point import OperatingPoint
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.pricing.power import requested, settle, waiting_w
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.table import Array, WorkTable, tabulate
from joulelab.hardware.processor import Processor
from joulelab.tracing.fusion import unfused
from joulelab.tracing.precision import element_b
from joulelab.tracing.program import MATRIX_KINDS, Kind, MatrixShape, Operator, Program

AnchorMode = Literal["graph", "eager", "idle"]
"""Kernels of a captured graph, calls from Python that the host's time sets, or nothing at all."""

_PEAK_TOLERANCE = 1.02
_POWER_TOLERANCE = 1.05
"""Power readings of a class of boards are good to 5 %."""
_MOST = 1e30
_BEYOND_CACHES = 4.0
"""Traffic of this many times the last cache must come from memory."""

_PIPES: dict[str, Pipe] = {
    "float64": "tensor_fp64",
    "float32": "fp32",
    "tf32": "tensor_tf32",
    "float16": "tensor_fp16",
    "bfloat16": "tensor_bf16",
    "float8": "tensor_fp8",
    "int8": "tensor_int8",
}
_STORED = {"tf32": "float32", "float8": "float8_e4m3fn"}
_COLUMNS = ("name", "kind", "dtype", "mode", "time_s", "flop", "moved_b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One micro-benchmark as measured."""

    name: str
    kind: str  # kind of kernel; "idle" for none, "chain" for several
    dtype: str  # number format of its operands; "tf32" is float32 on matrix units
    mode: AnchorMode
    data: str = "random"  # what operands held: "random" or "zeros"
    shape: MatrixShape | None = None  # of matrix work; None for the rest
    elements: float = 0.0
    flop: float = 0.0  # operations of one call, >= 0
    moved_b: float = 0.0  # bytes that one call reads and writes, >= 0
    # Whether its second operand rotates through more bytes than any cache holds.
    is_cold: bool = False
    is_channels_last: bool = False  # whether images have all channels of a pixel side by side
    # Operator calls in one call, by kind; empty for one alone.
    kinds: Mapping[str, int] = field(default_factory=dict)
    time_s: float = 0.0
    power_w: float | None = None
    clock_mhz: float | None = None
    problem: str = ""  # why it could not be measured; else empty

    def __post_init__(self) -> None:
        for name in ("elements", "flop", "moved_b"):
            check_range(name, getattr(self, name), 0, _MOST)
        check_range("time_s", self.time_s, 0, MOST_S)
        check_range("power_w", self.power_w, 0, MOST_W)
        check_range("clock_mhz", self.clock_mhz, 0, MOST_MHZ)

    @property
    def energy_j(self) -> float | None:
        """Energy of one call."""
        return None if self.power_w is None else self.power_w * self.time_s

    @property
    def operator(self) -> Operator:
        """What one call does, in the estimator's terms."""
        stored = _STORED.get(self.dtype, self.dtype)
        weight_b = self._weight_b(element_b(stored))
        written_b = min(self.elements * element_b(stored), self.moved_b - weight_b)
        kind: Kind = self.kind  # type: ignore[assignment]
        return Operator(
            name=self.name,
            kind=kind,
            dtype=stored,
            pipe=_PIPES[self.dtype] if kind in MATRIX_KINDS else "fp32",
            flop=self.flop,
            read_b=self.moved_b - weight_b - written_b,
            weight_b=weight_b,
            written_b=written_b,
            shape=self.shape,
            inputs=(0,),
            outputs=(1,),
            layout="channels_last" if self.is_channels_last else "plain",
        )

    def _weight_b(self, operand_b: float) -> float:
        """What a cold call reads anew counts as parameters, which are not left in a cache."""
        if self.shape is None or (self.kind == "attention" and not self.is_cold):
            return 0.0
        operands = 2 if self.kind == "attention" else 1
        return float(operands * self.shape.batch * self.shape.n * self.shape.k * operand_b)


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """Read a table of ``benchmarks/estimator_anchors.py``; ConfigError if it is none, and why."""
    rows = read_csv_table(path)
    missing = [name for name in _COLUMNS if rows and name not in rows[0]]
    if missing or not rows:
        lacks = f"lacks the columns {', '.join(missing)}" if missing else "holds no rows"
        raise ConfigError(
            f"The micro-benchmarks {path} must be a table of benchmarks/estimator_anchors.py; "
            f"it {lacks}."
        )
    return tuple(_anchor(path, number, row) for number, row in enumerate(rows, start=FIRST_LINE))


def rejections(processor: Processor, anchors: Sequence[Anchor]) -> dict[str, str]:
    """Return why anchors cannot be right on ``processor``, by their names; empty if all can."""
    reasons = {anchor.name: _reason(processor, anchor) for anchor in anchors}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason(processor: Processor, anchor: Anchor) -> str:
    if anchor.problem:
        return f"not measured: {anchor.problem}"
    if not anchor.time_s > 0:
        return f"took {anchor.time_s:g} s"
    limit_w = processor.default_power_limit_w
    if anchor.power_w is not None and anchor.power_w > limit_w * _POWER_TOLERANCE:
        return f"draws {anchor.power_w:.0f} W under a limit of {limit_w:.0f} W"
    return "" if anchor.mode != "graph" else _too_fast(processor, anchor)


def _too_fast(processor: Processor, anchor: Anchor) -> str:
    operator = anchor.operator
    if operator.flop and operator.pipe in processor.flop_per_clock:
        peak = processor.peak_flop_per_s(operator.pipe, processor.clocks_mhz[2])
        share = operator.flop / anchor.time_s / peak
        if share > _PEAK_TOLERANCE:
            return f"runs at {share:.2f} times the peak of {operator.pipe}"
    if anchor.moved_b > _BEYOND_CACHES * processor.last_cache.size_b:
        share = anchor.moved_b / anchor.time_s / processor.memory.bandwidth_b_per_s
        if share > _PEAK_TOLERANCE:
            return f"moves {share:.2f} times what the memory can"
    return ""


def _anchor(path: Path, number: int, row: dict[str, str]) -> Anchor:
    try:
        return Anchor(
            name=row["name"],
            kind=row["kind"],
            dtype=row["dtype"],
            mode=row["mode"],  # type: ignore[arg-type]
            data=row.get("data") or "random",
            shape=_shape(row),
            elements=_number(row, "elements") or 0.0,
            flop=_number(row, "flop") or 0.0,
            moved_b=_number(row, "moved_b") or 0.0,
            is_cold=row.get("cold") == "True",
            is_channels_last=row.get("memory_format") == "channels_last",
            kinds=_kinds(row.get("kinds") or ""),
            time_s=_number(row, "time_s") or 0.0,
            power_w=_number(row, "power_w"),
            clock_mhz=_number(row, "sm_clock_mhz"),
            problem=row.get("error") or "",
        )
    except (ValueError, KeyError) as error:
        raise ConfigError(f"Line {number} of {path} is not a micro-benchmark: {error}.") from error


def _kinds(text: str) -> dict[str, int]:
    """Read what a chain calls, as ``"conv 16, norm 16"``."""
    pairs = (part.split() for part in text.split(",") if part.strip())
    return {kind: int(count) for kind, count in pairs}


def _shape(row: dict[str, str]) -> MatrixShape | None:
    if row["kind"] not in MATRIX_KINDS or not int(row["m"]):
        return None
    windows = {name: int(row[name]) for name in ("window", "pixels") if row.get(name)}
    return MatrixShape(**{name: int(row[name]) for name in ("batch", "m", "n", "k")}, **windows)


def _number(row: dict[str, str], name: str) -> float | None:
    return float(row[name]) if row.get(name) else None


_NO_CAP_W = 1e9
_ROTATED_B = 1e12
"""Stands for operands that rotate through more bytes than any cache holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Predictions for one call of each micro-benchmark, in their order."""

    time_s: Array
    energy_j: Array
    clock_mhz: Array


class Pricing:
    """Prices micro-benchmarks on processors; what does not depend on them is done once."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._anchors = tuple(anchors)
        self._tables: list[tuple[list[int], WorkTable]] = []
        # Whether a call finds its parameters in a cache is a matter of the whole program.
        for place in (("graph", False), ("graph", True)):
            rows = [row for row, one in enumerate(anchors) if (one.mode, one.is_cold) == place]
            if rows:
                operators = [anchors[row].operator for row in rows]
                self._tables.append((rows, _table(operators, _ROTATED_B * place[1])))

    def on(self, processor: Processor, *, at_measured_clocks: bool = False) -> Prices:
        """Return what they cost on ``processor`` at its default operating point.

        Or each at the clock at which it was seen to run, if any, under no cap.
        """
        if at_measured_clocks:
            timing = replace(processor.timing, tensor_ceiling_start=None)
            processor = replace(processor, timing=timing)
        clock, cap = requested(processor, (OperatingPoint(),))
        idle_w = float(waiting_w(processor, clock, cap)[0])
        time_s = np.array([_host_s(processor, anchor) for anchor in self._anchors])
        clock_mhz = np.full(len(self._anchors), clock[0])
        energy_j = time_s * idle_w
        gap_s = processor.timing.graph_launch_s
        for rows, table in self._tables:
            costs = group_costs(table, processor)
            clocks, caps = clock.repeat(len(rows)), cap.repeat(len(rows))
            if at_measured_clocks:
                seen = [self._anchors[row].clock_mhz for row in rows]
                clocks = np.array([one or clock[0] for one in seen])
                caps = np.where([one is not None for one in seen], _NO_CAP_W, cap[0])
            settled = settle(costs, processor, clocks, caps)
            # One point for each anchor, of which the anchor's own group is wanted.
            own = (np.arange(len(rows)), table.sequence)
            device_s = settled.device_s[own]
            time_s[rows] = device_s + gap_s
            clock_mhz[rows] = settled.clock_mhz[own]
            energy_j[rows] = settled.power_w[own] * device_s + idle_w * gap_s
        return Prices(time_s=time_s, energy_j=energy_j, clock_mhz=clock_mhz)


def _host_s(processor: Processor, anchor: Anchor) -> float:
    if anchor.mode != "eager":
        return anchor.time_s
    calls = anchor.kinds or {anchor.kind: 1}
    return sum(processor.timing.launch_s(kind) * count for kind, count in calls.items())


def _table(operators: Sequence[Operator], parameter_b: float) -> WorkTable:
    """Every operator as a kernel of its own, priced by its kind, as it runs in a loop."""
    apart = [replace(operator, inputs=(), outputs=(row,)) for row, operator in enumerate(operators)]
    program = Program(operators=tuple(apart), parameter_b=parameter_b)
    table = tabulate(program, unfused(program))
    return replace(table, classes=tuple(one.kind for one in table.operators))
