"""Products beside each other: what work costs on each at its own clocks, and on which it is least.

Operating points are compared within a product, by ratios. Between products there are only absolute
figures, which carry the class of the sensors of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from joulelab.analysis.measurement_lines import SENSOR_CLASS
from joulelab.analysis.sweep import PhaseResult, SweepResult, SweepRow, Values, cost_of
from joulelab.core.additive import Interval
from joulelab.core.grouping import grouped_by
from joulelab.core.measurement import Measurement
from joulelab.core.statistics import student_quantile
from joulelab.objectives import ENERGY


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """A product at one of its operating points.

    Attributes:
        phase: What was found on the product.
        row: The point; ``None`` where none of the product's may be chosen.
        is_best: Whether it is the product's best point; else it is the driver's default.
    """

    phase: PhaseResult
    row: SweepRow | None
    is_best: bool

    def interval(self, values: Values) -> Interval | None:
        """Return a quantity with its interval at the level of the study; ``None`` without figures.

        It holds the scatter of repeats and what the readings explain, on the boards that were
        measured, and not the class of their sensors.
        """
        if self.row is None or self.row.figures is None:
            return None
        value, u = values(self.row.figures)
        half = student_quantile((1 + self.phase.level) / 2, self.phase.dof or inf) * u
        return Interval(value=value, low=value - half, high=value + half)

    @property
    def energy_j(self) -> Interval | None:
        """Energy per unit, likewise."""
        return self.interval(cost_of(ENERGY, self.phase.unit)[2])


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One phase of one workload on several products, of each what was found."""

    phases: tuple[PhaseResult, ...]

    @property
    def unit(self) -> str:
        """Unit of work, in the singular."""
        return self.phases[0].unit

    @cached_property
    def points(self) -> tuple[Operated, ...]:
        """Each product at the driver's default, and at its best point where that is another."""
        return tuple(point for phase in self.phases for point in _points(phase))

    @cached_property
    def least(self) -> tuple[Operated, ...]:
        """The products that may take the least energy per unit, each at its best; lowest first.

        One is left out where it takes more even if the sensors of both err by their whole class.
        """
        best = [(each, found) for each in self.points if each.is_best and (found := each.energy_j)]
        if not best:
            return ()
        best.sort(key=lambda pair: pair[1].value)
        most_j = min(found.high for _, found in best) * (1 + SENSOR_CLASS)
        return tuple(each for each, found in best if found.low * (1 - SENSOR_CLASS) <= most_j)


def side_by_side(result: SweepResult) -> tuple[SideBySide, ...]:
    """Put what several products were measured at beside each other; nothing for one product."""
    groups = grouped_by(result.phases, lambda each: (each.workload, each.knobs, each.phase))
    return tuple(SideBySide(phases=tuple(group)) for group in groups.values() if len(group) > 1)


def power_limits_w(
    phase: PhaseResult, measurements: Sequence[Measurement]
) -> tuple[float | None, ...]:
    """Return the board power limits that were in force where none was set; ``None`` if unread."""
    boards = {board.uuid for board in phase.boards}
    seen = {
        m.observed.power_limit_w
        for m in measurements
        if m.windows and m.device.uuid in boards and m.configuration.point.power_limit_w is None
    }
    return tuple(sorted(seen, key=lambda limit_w: limit_w or 0.0))


def _points(phase: PhaseResult) -> list[Operated]:
    best = phase.best or phase.least
    default = Operated(phase=phase, row=phase.default, is_best=False)
    chosen = Operated(phase=phase, row=best, is_best=True)
    if best is not None and best.point.is_default:
        return [chosen]
    return [default, chosen]
