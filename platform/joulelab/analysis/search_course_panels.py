"""The course of a search: what each trial cost, and the best so far, over trials and energy."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from joulelab.analysis.plain_axes import limits, plain_log_ticks
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import goal_name
from joulelab.analysis.style import BEST, CAPPED, CURVE, INK, MUTED, tidy
from joulelab.search.course import Step

_MOST_ABOVE = 1.2
"""How far above the baseline the axis goes at most, in lengths of what the best saves."""
_LOG_FROM = 4.0
"""By what the best must be below the baseline for a logarithmic axis."""
_LEAST = 20.0
"""What counts as that length at least, in percent."""


def draw_course(over_trials: Axes, over_energy: Axes, result: SearchResult) -> None:
    """Draw the course of a search twice, over trials and over the energy that they took.

    Args:
        over_trials: Where to draw it over trials.
        over_energy: Where to draw it over energy; shares its vertical axis with the other.
        result: What was found.
    """
    steps = result.steps
    factor, prefix = si_scale([steps[-1].spent_j])
    unit = f"{goal_name(result.problem)}, % of the baseline's"
    tidy(over_trials, "Best so far, over trials", unit, "trials")
    tidy(over_energy, "Best so far, over energy spent", "", f"energy spent, {prefix}J")
    over_trials.set_xlim(0, len(steps) * 1.16 + 0.5)
    over_trials.xaxis.set_major_locator(MaxNLocator(integer=True))
    over_energy.set_xlim(0, steps[-1].spent_j * factor * 1.16)
    _set_range(over_trials, result)
    _draw(over_trials, result, [float(step.number) for step in steps])
    _draw(over_energy, result, [step.spent_j * factor for step in steps])


def _set_range(axes: Axes, result: SearchResult) -> None:
    """Let the vertical axis go from below the best to not far above the baseline.

    Where the best costs a small part of the baseline, it is logarithmic and shows everything.
    """
    known = [step.cost_ratio for step in result.steps if step.cost_ratio is not None]
    costs = [100.0, *map(_percent, known)]
    low, high = min(costs), max(costs)
    if low < 100 / _LOG_FROM:
        axes.set_yscale("log")
        axes.set_ylim(*limits(costs, has_log=True, below=0.16, above=0.08))
        plain_log_ticks(axes, "y")
        return
    length = max(100 - low, _LEAST)
    top = max(min(high + 0.08 * length, 100 + _MOST_ABOVE * length), 100 + 0.12 * length)
    axes.set_ylim(low - 0.16 * (top - low), top)


def _draw(axes: Axes, result: SearchResult, xs: Sequence[float]) -> None:
    top = axes.get_ylim()[1]
    axes.axhline(100.0, color=INK, linewidth=0.9, zorder=2)
    shown = [(x, step) for x, step in zip(xs, result.steps, strict=True)]
    _scatter(axes, shown, result, top)
    lost = [x for x, step in shown if step.outcome.figures is None]
    axes.plot(lost, [0.025] * len(lost), transform=axes.get_xaxis_transform(), linestyle="",
              marker="|", markersize=8, color=MUTED, markeredgewidth=1.4, zorder=4)  # fmt: skip
    best = [(x, _percent(step.best_cost_ratio)) for x, step in shown if _is_known(step)]
    if best:
        axes.step([x for x, _ in best], [y for _, y in best], where="post", color=BEST,
                  linewidth=2.0, zorder=5)  # fmt: skip
        x, y = best[-1]
        up = 0.0 if y < 99 else 7.0
        axes.annotate(
            f"{y:.3g} %", (x, y), xytext=(5, up), textcoords="offset points", va="center",
            color=BEST, fontsize=9, fontweight="bold", annotation_clip=False, zorder=6,
        )  # fmt: skip


def _scatter(
    axes: Axes, shown: Sequence[tuple[float, Step]], result: SearchResult, top: float
) -> None:
    """Draw a dot for each trial; what lies beyond the axis points there."""
    baseline = result.problem.space.baseline
    allowed = {row.configuration for row in result.rows if row.is_feasible}
    for x, step in shown:
        if step.cost_ratio is None:
            continue
        y, candidate = _percent(step.cost_ratio), step.outcome.candidate
        color = CAPPED if candidate == baseline else CURVE
        is_within = y <= top
        axes.plot(
            x, min(y, top), marker="o" if is_within else "^", color=color,
            markersize=3.6 if is_within else 4.5, alpha=0.7 if is_within else 0.3,
            markerfacecolor=color if candidate in allowed else "none",
            markeredgewidth=0.7, clip_on=is_within, zorder=3,
        )  # fmt: skip


def _is_known(step: Step) -> bool:
    return step.best_cost_ratio is not None and step.is_feasible


def _percent(ratio: float | None) -> float:
    return 100 * (1.0 if ratio is None else ratio)
