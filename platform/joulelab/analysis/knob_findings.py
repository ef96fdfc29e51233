"""What a study of knobs found: who wins where, who loses, how costs grow; in numbers and words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import exp, log, log2

from joulelab.analysis.knob_study import KnobPhase, KnobResult, KnobRow
from joulelab.analysis.quantities import quantity, uncertain
from joulelab.analysis.sweep import Figures
from joulelab.analysis.wording import percent
from joulelab.core.additive import Interval
from joulelab.core.statistics import line_slope

Measured = tuple[KnobRow, Figures]
Say = Callable[[KnobPhase], str]
"""Says in one sentence what a phase shows; ``""`` where that is not worth one."""

_BITS = {"fp64": 64, "fp32": 32, "tf32": 19, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
_LITTLE = 0.05
"""A doubling of the batch that saves less is called saturated."""
_ENOUGH = 0.95
"""Retention of quality that is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A narrower format that takes more energy than a wider one.

    Attributes:
        row: The narrower format.
        to: The wider one of the lowest energy there.
        ratio: Energy of the narrower over the wider one; its interval excludes 1.
    """

    row: KnobRow
    to: KnobRow
    ratio: Interval


def losses(phase: KnobPhase) -> tuple[Loss, ...]:
    """Return where a narrower format is shown to lose; none unless formats are compared."""
    if phase.axes[0].knob != "precision":
        return ()
    found = []
    for row, _ in phase.measured:
        rivals = [o for o in phase.measured if o[0].case.values[1:] == row.case.values[1:]]
        wider = [other for other in rivals if _bits(other[0]) > _bits(row)]
        if wider:
            to = min(wider, key=_energy_j)[0]
            ratio = phase.energy_ratio(row, to)
            if ratio.low > 1:
                found.append(Loss(row=row, to=to, ratio=ratio))
    return tuple(found)


def crossover(narrow: Sequence[Measured], wide: Sequence[Measured]) -> float | None:
    """Return where two curves of energy cross, both taken as straight on logarithmic axes.

    Args:
        narrow: A curve over a numeric knob.
        wide: Another one.

    Returns:
        The first place; ``None`` if they do not cross between two values that both have.
    """
    energy_j = {row.x: figures.energy_per_unit_j for row, figures in wide}
    both = [
        (log(float(str(row.x))), log(figures.energy_per_unit_j / energy_j[row.x]))
        for row, figures in narrow
        if row.x in energy_j
    ]
    for (x0, y0), (x1, y1) in pairwise(sorted(both)):
        if y0 * y1 < 0:
            return exp(x0 + (x1 - x0) * y0 / (y0 - y1))
    return None


def winners(phase: KnobPhase) -> tuple[KnobRow, ...]:
    """Return the row of the lowest energy for each value of the last axis."""
    rows = sorted(phase.measured, key=lambda m: phase.axes[-1].values.index(m[0].x))
    return tuple(min(group, key=_energy_j)[0] for _, group in groupby(rows, key=lambda m: m[0].x))


def sentence(result: KnobResult, say: Say) -> str:
    """Say what a study found: one line for each phase that is worth one."""
    said = [(phase, _said(phase, say)) for phase in result.phases]
    lines = [(phase, text) for phase, text in said if text]
    if len(lines) == 1:
        return lines[0][1]
    return "\n".join(f"{phase.title}: {text}" for phase, text in lines)


def say_formats(phase: KnobPhase) -> str:
    """Say which format takes the least energy where, and where a narrower one loses."""
    best = winners(phase)
    runs = [list(run) for _, run in groupby(best, key=lambda row: row.series)]
    if len(runs) == 1:
        where = "" if len(best) == 1 else "everywhere, "
        least = f"{phase.curve_name(best[0].series)} takes the least energy {where}"
        said = f"{least}{_cost(phase, best[-1])} at {_x(phase, best[-1])}"
    else:
        parts = [f"{phase.curve_name(run[0].series)} {_span(phase, run)}" for run in runs]
        said = f"The least energy is taken by {', '.join(parts)}"
    lost = losses(phase)
    if not lost:
        return f"{said}; no narrower format is shown to take more than a wider one."
    return f"{said}; {', '.join(_lost(phase, lost))}."


def say_batches(phase: KnobPhase) -> str:
    """Say how energy and throughput change from the smallest batch to the largest."""
    parts = []
    for series, curve in phase.curves.items():
        if len(curve) < 2:
            continue
        first, last = _ends(curve)
        ratio, times = phase.energy_ratio(last, first), phase.time_ratio(last, first)
        parts.append(
            f"{_lead(phase, series)}from {_x(phase, first)} to {last.x} energy changes by "
            f"{percent(_change(ratio))} and throughput grows {1 / times.value:.3g}-fold"
            f"{_saturation(phase, curve)}"
        )
    return _joined(parts)


def say_lengths(phase: KnobPhase) -> str:
    """Say how energy and time per unit change from the first value to the last."""
    parts = []
    for series, curve in phase.curves.items():
        if len(curve) < 2:
            continue
        first, last = _ends(curve)
        energy, time = phase.energy_ratio(last, first), phase.time_ratio(last, first)
        parts.append(
            f"{_lead(phase, series)}from {first.x} to {last.x} {phase.axes[-1].title} energy per "
            f"{phase.unit} changes by {percent(_change(energy))} and time by "
            f"{percent(_change(time))}"
        )
    return _joined(parts)


def say_sizes(phase: KnobPhase) -> str:
    """Say with which power of their size the energy of models grows."""
    parts = []
    axis = phase.axes[-1]
    for series, curve in phase.curves.items():
        if len(curve) < 2:
            continue
        least, most = min(curve, key=_energy_j)[0], max(curve, key=_energy_j)[0]
        ratio = phase.energy_ratio(most, least)
        power = ""
        if axis.is_number:
            sizes = [log(axis.place(row.x)) for row, _ in curve]
            slope = line_slope(sizes, [log(f.energy_per_unit_j) for _, f in curve])
            power = f", which grows with the power {slope:.2f} of the {axis.title}"
        parts.append(
            f"{_lead(phase, series)}{most.x} takes {ratio.value:.3g} ± {ratio.half_width:.2g} "
            f"times the energy of {least.x}{power}"
        )
    return _joined(parts)


def say_steps(phase: KnobPhase) -> str:
    """Say what is cheapest, what is cheapest of what is good enough, and what a step costs."""
    if not phase.measured:
        return ""
    cheapest = min(phase.measured, key=_energy_j)[0]
    parts = [f"{cheapest.case.label} takes the least energy, {_cost(phase, cheapest)}"]
    good = [m for m in phase.measured if _is_good(m[0])]
    if good:
        row = min(good, key=_energy_j)[0]
        metrics = " and ".join(q.metric for q in row.quality if q.retention is not None)
        parts.append(
            f"of what keeps {_ENOUGH:.0%} of the first row's {metrics} it is {row.case.label}, "
            f"{_cost(phase, row)}"
        )
    slopes_j = [_slope_j(phase, curve) for curve in phase.curves.values() if len(curve) > 1]
    if slopes_j:
        low, high = (
            quantity(e, f"J/{phase.unit}", digits=3) for e in (min(slopes_j), max(slopes_j))
        )
        parts.append(f"one step more costs {low}" + (f" to {high}" if high != low else ""))
    return _joined(parts)


def _said(phase: KnobPhase, say: Say) -> str:
    if phase.measured:
        return say(phase)
    return f"Nothing could be measured. {phase.rows[0].reason}"


def _lost(phase: KnobPhase, lost: Sequence[Loss]) -> list[str]:
    parts = []
    for (narrow, wide), found in groupby(lost, key=lambda loss: (loss.row.series, loss.to.series)):
        each = list(found)
        places = _listed([_x(phase, each[0]), *(str(loss.row.x) for loss in each[1:])])
        worst = max(each, key=lambda loss: loss.ratio.value).ratio
        near = crossover(phase.curves[narrow], phase.curves[wide]) if _is_scale(phase) else None
        parts.append(
            f"{phase.curve_name(narrow)} loses to {phase.curve_name(wide)} at {places} (by up to "
            f"{percent(_change(worst))}{'' if near is None else f'; they cross near {near:.2g}'})"
        )
    return parts


def _saturation(phase: KnobPhase, curve: Sequence[Measured]) -> str:
    """Say from where on another doubling saves little, to the end of the curve."""
    if not _is_scale(phase):
        return ""
    ordered = sorted(curve, key=lambda m: float(str(m[0].x)))
    start = None
    for (row, before), (after_row, after) in pairwise(ordered):
        doublings = log2(float(str(after_row.x)) / float(str(row.x)))
        ratio = after.energy_per_unit_j / before.energy_per_unit_j
        saved = 1 - ratio ** (1 / doublings)
        start = None if saved >= _LITTLE else start if start is not None else row.x
    return "" if start is None else f" (beyond {start} a doubling saves less than {_LITTLE:.0%})"


def _slope_j(phase: KnobPhase, curve: Sequence[Measured]) -> float:
    axis = phase.axes[-1]
    return line_slope(
        [axis.place(row.x) for row, _ in curve], [f.energy_per_unit_j for _, f in curve]
    )


def _is_good(row: KnobRow) -> bool:
    kept = [quality.retention for quality in row.quality if quality.retention is not None]
    return bool(kept) and all(share >= _ENOUGH for share in kept)


def _is_scale(phase: KnobPhase) -> bool:
    axis = phase.axes[-1]
    return axis.is_number and axis.places is None


def _ends(curve: Sequence[Measured]) -> tuple[KnobRow, KnobRow]:
    return curve[0][0], curve[-1][0]


def _energy_j(measured: Measured) -> float:
    return measured[1].energy_per_unit_j


def _bits(row: KnobRow) -> int:
    return _BITS.get(str(row.case.values[0]), 0)


def _cost(phase: KnobPhase, row: KnobRow) -> str:
    figures = row.figures
    if figures is None:
        return ""
    return uncertain(figures.energy_per_unit_j, figures.energy_per_unit_u_j, f"J/{phase.unit}")


def _x(phase: KnobPhase, row: KnobRow | Loss) -> str:
    found = row.row if isinstance(row, Loss) else row
    return phase.axes[-1].text(found.x)


def _span(phase: KnobPhase, run: Sequence[KnobRow]) -> str:
    if len(run) == 1:
        return f"at {_x(phase, run[0])}"
    return f"from {_x(phase, run[0])} to {run[-1].x}"


def _lead(phase: KnobPhase, series: Sequence[object]) -> str:
    if len(phase.curves) < 2:
        return ""
    return f"{phase.curve_name(series)} "  # type: ignore[arg-type]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _change(ratio: Interval) -> Interval:
    return Interval(value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)


def _joined(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
