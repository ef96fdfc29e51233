"""What a study of knobs found: who wins where, who loses, and all of it in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import exp, isfinite, log, log2

from joulelab.analysis.compared import Figures
from joulelab.analysis.knob_study import KnobPhase, KnobResult, KnobRow
from joulelab.analysis.quantities import brief, change, counted
from joulelab.analysis.wording import energy_words
from joulelab.core.additive import Interval
from joulelab.core.number_format import BITS
from joulelab.core.statistics import line_slope
from joulelab.objectives import TIME

Measured = tuple[KnobRow, Figures]
_LEAST_SIZES = 3  # through two sizes goes any power, which says nothing of a third


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A narrower format that takes more energy than the wider one of the lowest energy there.

    The interval of ``ratio``, of their energies, excludes 1.
    """

    row: KnobRow
    to: KnobRow
    ratio: Interval


_LITTLE = 0.05  # a doubling of the batch that saves less is called saturated
_ENOUGH = 0.95  # retention of quality that is asked for


def sentence(result: KnobResult, conclude: Callable[[KnobPhase], str]) -> str:
    """Say what a study found: one line for each phase that is worth one."""

    def what_shows(phase: KnobPhase) -> str:
        nothing = f"Nothing could be measured. {phase.rows[0].reason}"
        return conclude(phase) if phase.measured else nothing

    known = [(phase, what_shows(phase)) for phase in result.main_phases]
    lines = [(phase, text) for phase, text in known if text]
    if len(lines) == 1:
        return lines[0][1]
    return "\n".join(f"{phase.title}: {text}" for phase, text in lines)


def conclude_formats(phase: KnobPhase) -> str:
    """Say which format takes the least energy where, and where a narrower one loses."""
    best = winners(phase)
    runs = [(name, list(run)) for name, run in groupby(best, key=lambda row: _names(phase, row))]
    parts = [
        f"{name} {_span(phase, run)} ({energy_words(run[-1].figures, phase.unit)})"
        for name, run in runs
    ]
    text = f"Least energy: {', '.join(parts)}"
    lost = losses(phase)
    if not lost:
        return f"{text}; no narrower format is shown to take more than a wider one."
    return f"{text}; {', '.join(_lost(phase, lost))}."


def conclude_batches(phase: KnobPhase) -> str:
    """Say how energy and throughput change from the smallest batch to the largest."""

    def growth(curve: Sequence[Measured]) -> str:
        first, last = curve[0][0], curve[-1][0]
        ratio, times = phase.ratio(last, first), phase.ratio(last, first, TIME)
        return (
            f"from {_x(phase, first)} to {last.x} energy changes by {change(ratio)} and "
            f"throughput grows {1 / times.value:.3g}-fold{_saturation(phase, curve)}"
        )

    return _of_curves(phase, growth)


def conclude_lengths(phase: KnobPhase) -> str:
    """Say how energy and time per unit change from the first value to the last."""

    def changes(curve: Sequence[Measured]) -> str:
        first, last = curve[0][0], curve[-1][0]
        energy, time = phase.ratio(last, first), phase.ratio(last, first, TIME)
        return (
            f"from {first.x} to {last.x} {phase.axes[-1].title} energy per {phase.unit} changes "
            f"by {change(energy)} and time by {change(time)}"
        )

    return _of_curves(phase, changes)


def conclude_sizes(phase: KnobPhase) -> str:
    """Say with which power of their size the energy of models grows."""
    axis = phase.axes[-1]

    def power(curve: Sequence[Measured]) -> str:
        least, most = min(curve, key=energy_j)[0], max(curve, key=energy_j)[0]
        ratio = phase.ratio(most, least)
        times = f"{_times(ratio)} times the energy of {least.x}"
        if not axis.is_number or len(curve) < _LEAST_SIZES:
            return f"{most.x} takes {times}"
        sizes = [log(axis.place(row.x)) for row, _ in curve]
        slope = line_slope(sizes, [log(f.energy_per_unit_j) for _, f in curve])
        return f"{most.x} takes {times}; energy goes with the power {slope:.2f} of the {axis.title}"

    return _of_curves(phase, power)


def conclude_steps(phase: KnobPhase) -> str:
    """Say what is cheapest, what is cheapest of what is good enough, and what a step costs."""
    if not phase.measured:
        return ""
    cheapest = min(phase.measured, key=energy_j)[0]
    parts = [f"least energy: {cheapest.case.label}, {energy_words(cheapest.figures, phase.unit)}"]
    if num := len(equals(phase, cheapest)) - 1:
        parts[0] += f" ({counted(num, 'other')} statistically indistinguishable from it)"
    good = [m for m in phase.measured if _is_good(m[0])]
    if good:
        row = min(good, key=energy_j)[0]
        metrics = " and ".join(q.metric for q in row.quality if q.retention is not None)
        parts.append(
            f"of those that keep {_ENOUGH:.0%} of the first row's {metrics}: {row.case.label}, "
            f"{energy_words(row.figures, phase.unit)}"
        )
    slopes_j = [_slope_j(phase, curve) for curve in phase.curves.values() if len(curve) > 1]
    if slopes_j:
        low, high = (brief(e, f"J/{phase.unit}") for e in (min(slopes_j), max(slopes_j)))
        parts.append(f"one step more costs {low}" + (f" to {high}" if high != low else ""))
    return _joined(parts)


def _times(ratio: Interval) -> str:
    number = f"{ratio.value:.3g}"
    return f"{number} ± {ratio.half_width:.2g}" if isfinite(ratio.half_width) else number


def _lost(phase: KnobPhase, lost: Sequence[Loss]) -> list[str]:
    parts = []
    for (narrow, wide), found in groupby(lost, key=lambda loss: (loss.row.series, loss.to.series)):
        each = list(found)
        words = [_x(phase, each[0].row), *(str(loss.row.x) for loss in each[1:])]
        places = " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
        worst = max(each, key=lambda loss: loss.ratio.value).ratio
        near = crossover(phase.curves[narrow], phase.curves[wide]) if _is_scale(phase) else None
        parts.append(
            f"{phase.curve_name(narrow)} loses to {phase.curve_name(wide)} at {places} "
            f"({'up to ' if len(each) > 1 else ''}{change(worst)}"
            f"{'' if near is None else f', crossing near {near:.2g}'})"
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


def _x(phase: KnobPhase, row: KnobRow) -> str:
    return phase.axes[-1].text(row.x)


def _span(phase: KnobPhase, run: Sequence[KnobRow]) -> str:
    if len(run) == 1:
        return f"at {_x(phase, run[0])}"
    return f"from {_x(phase, run[0])} to {run[-1].x}"


def _of_curves(phase: KnobPhase, words_of: Callable[[Sequence[Measured]], str]) -> str:
    """Join what is to be said of each curve, below its name where there are several."""
    several = len(phase.curves) > 1
    return _joined(
        [
            f"{phase.curve_name(series)}: {words_of(curve)}" if several else words_of(curve)
            for series, curve in phase.curves.items()
            if len(curve) > 1
        ]
    )


def _joined(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    starts = ("from", "least")
    return f"{text[0].upper() if text.startswith(starts) else text[:1]}{text[1:]}." if text else ""


def _names(phase: KnobPhase, row: KnobRow) -> str:
    """Name the curve of a winner, and those that are not shown to be worse."""
    series = [row.series, *(o.series for o in equals(phase, row) if o is not row)]
    if len(phase.curves) == 1:
        series = [row.series]
    return " or ".join(phase.curve_name(each) for each in series)


def losses(phase: KnobPhase) -> tuple[Loss, ...]:
    """Return where a narrower format is shown to lose; none unless formats are compared."""
    if phase.axes[0].knob != "precision":
        return ()
    found = []
    for row, _ in phase.measured:
        rivals = [o for o in phase.measured if o[0].case.values[1:] == row.case.values[1:]]
        wider = [other for other in rivals if _bits(other[0]) > _bits(row)]
        if wider:
            to = min(wider, key=energy_j)[0]
            ratio = phase.ratio(row, to)
            if ratio.low > 1:
                found.append(Loss(row=row, to=to, ratio=ratio))
    return tuple(found)


def crossover(narrow: Sequence[Measured], wide: Sequence[Measured]) -> float | None:
    """Return where two curves of energy over a numeric knob cross, straight on logarithmic axes.

    ``None`` if they do not cross between two values that both have.
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
    """Return the row of the lowest energy for each value of the last axis.

    Where there is one curve alone, that is the lowest of all.
    """
    if len(phase.curves) == 1:
        return (min(phase.measured, key=energy_j)[0],)
    rows = sorted(phase.measured, key=lambda m: phase.axes[-1].values.index(m[0].x))
    return tuple(min(group, key=energy_j)[0] for _, group in groupby(rows, key=lambda m: m[0].x))


def equals(phase: KnobPhase, row: KnobRow) -> tuple[KnobRow, ...]:
    """Return the rows that are not shown to take more than ``row``, itself included.

    It is one of the lowest energy among those that share its value of the last axis, or of all
    where there is one curve alone.
    """
    rivals = phase.measured
    if len(phase.curves) > 1:
        rivals = tuple(m for m in rivals if m[0].x == row.x)
    return tuple(o for o, _ in rivals if o is row or phase.ratio(o, row).low <= 1)


def energy_j(measured: Measured) -> float:
    """Return the energy per unit of a row."""
    return measured[1].energy_per_unit_j


def _bits(row: KnobRow) -> int:
    return BITS.get(str(row.case.values[0]), 0)
