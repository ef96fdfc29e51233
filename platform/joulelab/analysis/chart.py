"""What a study found as points through which a tracking store draws curves."""

from collections.abc import Iterator
from dataclasses import replace

from joulelab.analysis.sweep import PhaseResult
from joulelab.core.point import OperatingPoint
from joulelab.searching.course import Step
from joulelab.tracking.study import ChartPoint


def curve_points(prefix: str, phase: PhaseResult) -> Iterator[ChartPoint]:
    """Yield what every requested SM clock of a phase costs; the step is the clock in MHz.

    Points of another power limit or memory clock lie on curves of their own, whose names say so.
    """
    for row, figures in sorted(phase.measured, key=lambda each: each[0].point.sm_clock_mhz or 0):
        if row.point.sm_clock_mhz is None:
            continue
        rest = replace(row.point, sm_clock_mhz=None)
        suffix = "" if rest == OperatingPoint() else f" at {rest.label}"
        values = {
            "energy_per_unit_j": figures.energy_per_unit_j,
            "time_per_unit_s": figures.time_per_unit_s,
            "power_w": figures.power_w,
            "edp_js": figures.edp_js,
        }
        yield ChartPoint(
            step=row.point.sm_clock_mhz,
            values=tuple((f"{prefix}{name}{suffix}", value) for name, value in values.items()),
            revised=True,
        )


def chart_point(step: Step) -> ChartPoint:
    """Return a step of a search as numbers: what is not known is absent, never 0."""
    known = {
        "trial_cost_ratio": step.cost_ratio,
        "best_cost_ratio": step.best_cost_ratio if step.is_feasible else None,
        "search_energy_j": step.spent_j,
        "num_valid": float(step.num_valid),
        "num_capped": float(step.num_capped),
        "num_failed": float(step.num_failed),
    }
    values = tuple((name, value) for name, value in known.items() if value is not None)
    return ChartPoint(step=step.number, values=values)
