"""A sweep as lines of text cells, for whoever lays them out: terminal or page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, si_scale
from joulelab.analysis.sweep import Figures, PhaseResult, SweepRow
from joulelab.core.additive import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One operating point in words.

    Attributes:
        mark: ``"*"`` the best, ``"="`` cannot be told apart from it, ``"^"`` power-capped.
        cells: One text per head of the sheet.
        is_best: Whether it is the best.
        in_set: Whether it cannot be told apart from the best.
        has_figures: Whether it has a valid measurement.
    """

    mark: str
    cells: tuple[str, ...]
    is_best: bool
    in_set: bool
    has_figures: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Operating points under common heads, which hold the units.

    Attributes:
        heads: Name and unit of each column.
        lines: The points.
    """

    heads: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def sheet(phase: PhaseResult, rows: Sequence[SweepRow]) -> Sheet:
    """Put ``rows`` of ``phase`` into words, with SI prefixes that suit them."""
    columns = _columns(phase, rows)
    return Sheet(
        heads=(
            ("clock", "MHz"),
            ("power", "W"),
            *((column.name, column.unit) for column in columns),
            ("energy saved", "%"),
            ("time added", "%"),
            ("n", ""),
        ),
        lines=tuple(_line(phase, row, columns) for row in rows),
    )


def selection(phase: PhaseResult, max_rows: int | None) -> list[SweepRow]:
    """Choose rows that tell the story in at most ``max_rows``; ``None`` takes all.

    They are the default, the best, the ends of the set that cannot be told apart from it, both
    ends of the sweep, and even steps between.
    """
    rows = phase.rows
    if max_rows is None or len(rows) <= max_rows:
        return list(rows)
    members = [i for i, row in enumerate(rows) if row.point.label in phase.members]
    named = [i for i, r in enumerate(rows) if r.point.is_default or r.point.label == phase.best]
    kept = {0, len(rows) - 1, *named, *members[:1], *members[-1:]}
    others = [i for i, row in enumerate(rows) if i not in kept and row.figures is not None]
    num = min(max(max_rows - len(kept), 0), len(others))
    kept |= {others[(2 * k + 1) * len(others) // (2 * num)] for k in range(num)}
    return [rows[i] for i in sorted(kept)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of quantities that share a prefix.

    Attributes:
        name: What it is.
        unit: Its unit with a prefix.
        factor: By what to multiply SI values.
        decimals: Decimals to show.
        values: Value and, where it is shown, standard uncertainty of a row.
    """

    name: str
    unit: str
    factor: float
    decimals: int
    values: Callable[[Figures], tuple[float, float | None]]

    def cell(self, figures: Figures) -> str:
        value, u = self.values(figures)
        text = f"{value * self.factor:.{self.decimals}f}"
        if u is None:
            return text
        return f"{text} {PLUS_MINUS} {u * self.factor:.{self.decimals}f}"


def _columns(phase: PhaseResult, shown: Sequence[SweepRow]) -> list[_Column]:
    figures = [row.figures for row in shown if row.figures is not None]

    def column(
        name: str, unit: str, values: Callable[[Figures], tuple[float, float | None]]
    ) -> _Column:
        found = [values(f) for f in figures]
        factor, prefix = si_scale(value for value, _ in found)
        uncertainties = [u * factor for _, u in found if u]
        scaled = [value * factor for value, _ in found]
        decimals = (
            decimals_for(median(uncertainties))
            if uncertainties
            else decimals_for(max(scaled, default=1.0), digits=4)
        )
        return _Column(
            name=name, unit=f"{prefix}{unit}", factor=factor, decimals=decimals, values=values
        )

    per = f"/{phase.unit}"
    return [
        column("energy", f"J{per}", lambda f: (f.energy_per_unit_j, f.energy_per_unit_u_j)),
        column("time", f"s{per}", lambda f: (f.time_per_unit_s, f.time_per_unit_u_s)),
        column("EDP", "J s", lambda f: (f.edp_js, None)),
        column("ED2P", "J s\N{SUPERSCRIPT TWO}", lambda f: (f.ed2p_js2, None)),
    ]


def _line(phase: PhaseResult, row: SweepRow, columns: Sequence[_Column]) -> Line:
    label, figures = row.point.label, row.figures
    best = "*" if label == phase.best else "=" if label in phase.members else " "
    num = f"{row.num_valid}-{row.num_invalid}" if row.num_invalid else f"{row.num_valid}"
    if figures is None:
        why = row.reasons[0] if row.reasons else "not compared"
        cells = [_clock(row), "", why, *[""] * (len(columns) + 1), num]
    else:
        quantities = [column.cell(figures) for column in columns]
        shares = [_share(share, row) for share in (figures.saving, figures.slowdown)]
        cells = [_clock(row), f"{figures.power_w:.1f}", *quantities, *shares, num]
    return Line(
        mark=best + ("^" if row.power_capped else " "),
        cells=tuple(cells),
        is_best=label == phase.best,
        in_set=label in phase.members,
        has_figures=figures is not None,
    )


def _clock(row: SweepRow) -> str:
    point = row.point
    if point.is_default:
        seen = row.observed_clock_mhz
        return "default" if seen is None else f"default ({seen:.0f})"
    only_clock = point.mem_clock_mhz is None and point.power_limit_w is None
    return f"{point.sm_clock_mhz}" if only_clock else point.label


def _share(interval: Interval | None, row: SweepRow) -> str:
    if interval is None or row.point.is_default:
        return "" if interval is None else "0"
    return f"{100 * interval.value:+.1f} {PLUS_MINUS} {100 * interval.half_width:.1f}"
