"""What a study of knobs found as lines of text, and as CSV in SI units."""

from collections.abc import Sequence
from pathlib import Path

from joulelab.analysis.knob_findings import equals, losses, winners
from joulelab.analysis.knob_study import KnobPhase, KnobResult, KnobRow
from joulelab.analysis.quantities import PLUS_MINUS, decimals_for, quantity, uncertain
from joulelab.analysis.table import (
    Columns,
    Line,
    Sheet,
    cells_at,
    count,
    interval_columns,
    write_rows,
)
from joulelab.core.additive import Interval

MINOR = ("clock", "time of", "power", "throughput")
"""Heads of columns that go first where there is no room."""


def knob_sheet(phase: KnobPhase) -> Sheet:
    """Put a phase into words; why rows have no figures is in :func:`knob_legend`."""
    least = winners(phase)
    best = {row.case.label for row in least}
    same = {other.case.label for row in least for other in equals(phase, row)}
    lost = {loss.row.case.label for loss in losses(phase)}
    reasons = _reasons(phase)
    metrics = _metrics(phase)
    return Sheet(
        heads=(
            *((axis.title, "") for axis in phase.axes),
            ("clock", "MHz"),
            ("power", "W"),
            ("energy", f"per {phase.unit}"),
            ("time", f"per {phase.unit}"),
            ("throughput", f"{phase.unit}/s"),
            ("energy of", "the first"),
            ("time of", "the first"),
            *((metric.replace("_", " "), "kept") for metric in metrics),
            ("n", ""),
        ),
        lines=tuple(
            Line(
                mark=("*" if row.case.label in best else "=" if row.case.label in same else " ")
                + ("!" if row.case.label in lost else " "),
                cells=_cells(phase, row, metrics, reasons),
                is_best=row.case.label in best,
                in_set=row.case.label in same,
                has_figures=row.figures is not None,
            )
            for row in phase.rows
        ),
    )


def knob_legend(phase: KnobPhase) -> list[str]:
    """Say what the marks and columns mean, and why rows have no figures."""
    at = f" at its {phase.axes[-1].title}" if len(phase.curves) > 1 else ""
    lines = [
        f"* least energy{at}   = statistically indistinguishable from it ({phase.level:.0%})"
        + ("   ! more than a wider format" if losses(phase) else ""),
        f"{PLUS_MINUS} standard uncertainty (k=1) of energy and time; {phase.level:.0%} interval "
        "of ratios to the first row",
    ]
    if any(row.num_invalid for row in phase.rows):
        lines.append("n: valid measurements, minus those that are not")
    return [*lines, *(f"[{number}] {reason}" for reason, number in _reasons(phase).items())]


def write_knob_csv(result: KnobResult, path: Path) -> None:
    """Write every combination in every phase to ``path``; what is not known is empty."""
    axes = [axis.knob for axis in result.phases[0].axes]
    metrics = sorted({metric for phase in result.phases for metric in _metrics(phase)})
    scores = [f"{metric}{part}" for metric in metrics for part in ("", "_retention")]
    heads = [*axes, *_PHASE, *_ROW, "is_best", "loses_to_wider", *scores]
    rows = [_csv_row(phase, row, metrics) for phase in result.phases for row in phase.rows]
    write_rows(path, heads, rows)


_PHASE: Columns = {
    "workload": "workload", "phase": "phase", "unit": "unit", "device": "device_name",
}  # fmt: skip
_FIGURES = (
    "power_w", "energy_per_unit_j", "energy_per_unit_u_j", "time_per_unit_s", "time_per_unit_u_s",
)  # fmt: skip
_ROW: Columns = {
    **{name: name for name in ("num_valid", "num_invalid", "reason")},
    "sm_clock_mhz": "observed_clock_mhz",
    "power_cap_share": "power_cap_share",
    **{name: f"figures.{name}" for name in _FIGURES},
    **interval_columns("energy_ratio", "figures.energy_ratio"),
    **interval_columns("time_ratio", "figures.time_ratio"),
}


def _cells(
    phase: KnobPhase, row: KnobRow, metrics: Sequence[str], reasons: dict[str, int]
) -> tuple[str, ...]:
    values = [str(value) for value in row.case.values]
    num = count(row.num_valid, row.num_invalid)
    figures, is_first = row.figures, row.case.label == phase.reference
    if figures is None:
        word = "cannot run" if row.is_unsupported else "no figure"
        nothing = [""] * (4 + len(metrics))
        return (*values, "", "", f"{word} [{reasons[row.reason]}]", *nothing, num)
    return (
        *values,
        "" if row.observed_clock_mhz is None else f"{row.observed_clock_mhz:.0f}",
        f"{figures.power_w:.1f}",
        uncertain(figures.energy_per_unit_j, figures.energy_per_unit_u_j, "J"),
        quantity(figures.time_per_unit_s, "s"),
        quantity(1 / figures.time_per_unit_s, "").rstrip(),
        _ratio(figures.energy_ratio, is_first=is_first),
        _ratio(figures.time_ratio, is_first=is_first),
        *(_kept(row, metric) for metric in metrics),
        num,
    )


def _ratio(ratio: Interval | None, *, is_first: bool) -> str:
    if ratio is None or is_first:
        return "1" if is_first else ""
    half = ratio.half_width
    decimals = decimals_for(half, digits=1) if half > 1e-4 * ratio.value else 4
    return f"{ratio.value:.{decimals}f} {PLUS_MINUS} {half:.{decimals}f}"


def _kept(row: KnobRow, metric: str) -> str:
    for quality in row.quality:
        if quality.metric == metric:
            kept = "" if quality.retention is None else f" ({quality.retention:.0%})"
            return f"{quality.score:.3g}{kept}"
    return ""


def _metrics(phase: KnobPhase) -> list[str]:
    return list(dict.fromkeys(q.metric for row in phase.rows for q in row.quality))


def _reasons(phase: KnobPhase) -> dict[str, int]:
    """Number the reasons for which rows have no figures."""
    found = dict.fromkeys(row.reason for row in phase.rows if row.figures is None)
    return {reason: number for number, reason in enumerate(found, 1)}


def _csv_row(phase: KnobPhase, row: KnobRow, metrics: Sequence[str]) -> list[object]:
    best = {each.case.label for each in winners(phase)}
    lost = {loss.row.case.label for loss in losses(phase)}
    known = {quality.metric: quality for quality in row.quality}
    scores = [
        value
        for metric in metrics
        for value in (
            (known[metric].score, known[metric].retention) if metric in known else (None, None)
        )
    ]
    label = row.case.label
    return [
        *row.case.values,
        *cells_at(phase, _PHASE),
        *cells_at(row, _ROW),
        int(label in best),
        int(label in lost),
        *scores,
    ]
