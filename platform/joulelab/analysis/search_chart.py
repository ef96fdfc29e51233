"""The course of a search as points through which a tracking store draws curves."""

from joulelab.search.course import Step
from joulelab.tracking.study import ChartPoint


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
