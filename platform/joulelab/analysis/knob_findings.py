"""What a study of knobs found: who wins where, and who loses."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import exp, log

from joulelab.analysis.compared import Figures
from joulelab.analysis.knob_study import KnobPhase, KnobRow
from joulelab.core.additive import Interval
from joulelab.core.number_format import BITS

Measured = tuple[KnobRow, Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A narrower format that takes more energy than a wider one.

    Attributes:
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
            to = min(wider, key=energy_j)[0]
            ratio = phase.energy_ratio(row, to)
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
    return tuple(o for o, _ in rivals if o is row or phase.energy_ratio(o, row).low <= 1)


def energy_j(measured: Measured) -> float:
    """Return the energy per unit of a row."""
    return measured[1].energy_per_unit_j


def _bits(row: KnobRow) -> int:
    return BITS.get(str(row.case.values[0]), 0)
