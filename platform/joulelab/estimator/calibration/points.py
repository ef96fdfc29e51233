"""Micro-benchmarks as measured: reading them, and refusing those that break physics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W, check_range
from joulelab.core.cost import Pipe
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import element_b
from joulelab.tracing.program import MATRIX_KINDS, Kind, MatrixShape, Operator

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
    """One micro-benchmark as measured.

    Attributes:
        kind: Kind of kernel; ``"idle"`` for none, ``"chain"`` for several.
        dtype: Number format of its operands; ``"tf32"`` is float32 on matrix units.
        data: What operands held: ``"random"`` or ``"zeros"``.
        shape: Of matrix work; ``None`` for the rest.
        flop: Operations of one call, >= 0.
        moved_b: Bytes that one call reads and writes, >= 0.
        is_cold: Whether its second operand rotates through more bytes than any cache holds.
        is_channels_last: Whether images have all channels of a pixel side by side.
        kinds: Operator calls in one call, by kind; empty for one alone.
        problem: Why it could not be measured; else empty.
    """

    name: str
    kind: str
    dtype: str
    mode: AnchorMode
    data: str = "random"
    shape: MatrixShape | None = None
    elements: float = 0.0
    flop: float = 0.0
    moved_b: float = 0.0
    is_cold: bool = False
    is_channels_last: bool = False
    kinds: Mapping[str, int] = field(default_factory=dict)
    time_s: float = 0.0
    power_w: float | None = None
    clock_mhz: float | None = None
    problem: str = ""

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
        )

    def _weight_b(self, operand_b: float) -> float:
        """What a cold call reads anew counts as parameters, which are not left in a cache."""
        if self.shape is None or (self.kind == "attention" and not self.is_cold):
            return 0.0
        operands = 2 if self.kind == "attention" else 1
        return float(operands * self.shape.batch * self.shape.n * self.shape.k * operand_b)


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """Read a table that ``benchmarks/estimator_anchors.py`` wrote.

    Raises:
        ConfigError: If the file cannot be read or lacks columns; names them.
    """
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
            elements=_number(row, "elements"),
            flop=_number(row, "flop"),
            moved_b=_number(row, "moved_b"),
            is_cold=row.get("cold") == "True",
            is_channels_last=row.get("memory_format") == "channels_last",
            kinds=_kinds(row.get("kinds") or ""),
            time_s=_number(row, "time_s"),
            power_w=_measured(row, "power_w"),
            clock_mhz=_measured(row, "sm_clock_mhz"),
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
    return MatrixShape(**{name: int(row[name]) for name in ("batch", "m", "n", "k")})


def _number(row: dict[str, str], name: str) -> float:
    return float(row.get(name) or 0.0)


def _measured(row: dict[str, str], name: str) -> float | None:
    return float(row[name]) if row.get(name) else None
