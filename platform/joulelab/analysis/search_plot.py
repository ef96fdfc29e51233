"""A search on two figures: what can be traded for what, and how the best was found.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from joulelab.analysis import style
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.search_front_panel import draw_front
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import recommendation
from joulelab.analysis.wording import boards_counted
from joulelab.searching.course import Step

_MOST_ABOVE = 1.2
"""How far above the baseline the axis goes at most, in lengths of what the best saves."""
_LOG_FROM = 4.0  # by what the best must be below the baseline for a logarithmic axis
_NEAR_PT = 8.0  # distance of two lines between which a number has no room
_LEAST = 20.0  # what counts as that length at least, in percent


@style.in_style
def front_figure(result: SearchResult, *, with_head: bool = True) -> Figure:
    """Draw energy against time of what was measured; two configurations or more have figures."""
    figure = _headed(result, front_caption(result) if with_head else "", 5.2)
    draw_front(figure, result)
    return figure


@style.in_style
def course_figure(result: SearchResult, *, with_head: bool = True) -> Figure:
    """Draw the cost that each trial found, and the best so far, over trials and over energy."""
    figure = _headed(result, course_caption(result) if with_head else "", 3.7)
    draw_course(figure, result)
    return figure


FIGURES = {"search-front": front_figure, "search-course": course_figure}
"""Figures of a search, by the stems of their files."""


@style.in_style
def paper_figure(result: SearchResult, stem: str) -> Figure:
    """Draw one of :data:`FIGURES` for a paper, over two columns of text."""
    is_front = stem == "search-front"
    figure = Figure(figsize=(style.PAGE_IN, 5.6 if is_front else 2.5))
    figure.subplots_adjust(left=0.08, right=0.94, top=0.9 if is_front else 0.8)
    if is_front:
        figure.subplots_adjust(bottom=0.08, hspace=0.5)
        draw_front(figure, result, upright=True)
    else:
        figure.subplots_adjust(bottom=0.18, wspace=0.16)
        draw_course(figure, result)
    return figure


def can_plot_search(result: SearchResult) -> bool:
    """Whether there are at least two configurations to draw."""
    return len(result.measured) > 1


def front_caption(result: SearchResult) -> str:
    """Say what the marks of the trade-off mean."""
    level = result.answer.standing.level
    line = " Colour: share of the reference's quality that is kept." * result.has_quality
    apart = ", for each quality apart" * result.has_quality
    return (
        f"Energy against time per {result.unit}. Orange: chosen. Green: statistically "
        f"indistinguishable from it ({level:.0%}). The thick line joins the Pareto "
        f"front{apart}. Bars: expanded uncertainty, k={style.COVERAGE}.{_hollow(result)}{line}"
    )


def course_caption(result: SearchResult) -> str:
    """Say what the marks of the course mean."""
    lost = result.steps[-1].num_valid < len(result.steps)
    return (
        f"Each dot is a trial: its {result.problem.objective.label} against the baseline's. The "
        "line is the best so far. Triangles, if any, lie beyond the axis."
        f"{_hollow(result)}{' Ticks below: trials without figures.' * lost}"
    )


def _hollow(result: SearchResult) -> str:
    has_doubts = any(not row.is_feasible for row, _ in result.measured)
    return " Hollow: not sure to keep to the constraints." * has_doubts


def _headed(result: SearchResult, caption: str, panels_in: float) -> Figure:
    """Return a figure below the answer and a caption; without a caption it has no head."""
    answer = [style.headline(recommendation(result.answer, result.problem))] if caption else []
    about = (
        f"{result.problem.space.workload} on {boards_counted(result.boards)}, "
        f"{result.steps[-1].num_valid} valid trials. {caption}"
    )
    figure = style.headed_figure(answer, about, panels_in=panels_in, size=12, left=0.065)
    figure.subplots_adjust(right=0.978 - 0.018 * result.has_quality, wspace=0.12)
    return figure


def draw_course(figure: Figure, result: SearchResult) -> None:
    """Draw the course of a search twice, over trials and over the energy that they took."""
    over_trials, over_energy = figure.subplots(1, 2, sharey=True)
    steps = result.steps
    factor, prefix = si_scale([steps[-1].spent_j])
    unit = f"{result.problem.objective.label}, % of the baseline's"
    style.tidy(over_trials, "Best so far, over trials", unit, "trials")
    style.tidy(over_energy, "Best so far, over energy spent", "", f"energy spent, {prefix}J")
    over_trials.set_xlim(0, len(steps) * 1.16 + 0.5)
    over_trials.xaxis.set_major_locator(MaxNLocator(integer=True))
    over_energy.set_xlim(0, steps[-1].spent_j * factor * 1.16)
    _set_range(over_trials, result)
    _draw_steps(over_trials, result, [float(step.number) for step in steps])
    _draw_steps(over_energy, result, [step.spent_j * factor for step in steps])


def _set_range(axes: Axes, result: SearchResult) -> None:
    """Let the vertical axis go from below the best to not far above the baseline.

    Where the best costs a small part of the baseline, it is logarithmic and shows everything.
    """
    known = [step.cost_ratio for step in result.steps if step.cost_ratio is not None]
    costs = [100.0, *(100 * ratio for ratio in known)]
    low, high = min(costs), max(costs)
    if low < 100 / _LOG_FROM:
        style.fit_axis(axes, "y", costs, has_log=True, below=0.16, above=0.08)
        return
    length = max(100 - low, _LEAST)
    top = max(min(high + 0.08 * length, 100 + _MOST_ABOVE * length), 100 + 0.12 * length)
    axes.set_ylim(low - 0.16 * (top - low), top)


def _draw_steps(axes: Axes, result: SearchResult, xs: Sequence[float]) -> None:
    top = axes.get_ylim()[1]
    axes.axhline(100.0, color=style.INK, linewidth=0.9, zorder=2)
    shown = [(x, step) for x, step in zip(xs, result.steps, strict=True)]
    _scatter(axes, shown, result, top)
    lost = [x for x, step in shown if step.outcome.figures is None]
    axes.plot(lost, [0.025] * len(lost), transform=axes.get_xaxis_transform(), linestyle="",
              marker="|", markersize=8, color=style.MUTED, markeredgewidth=1.4,
              zorder=4)  # fmt: skip
    known = [(x, step.best_cost_ratio) for x, step in shown if step.is_feasible]
    best = [(x, 100 * ratio) for x, ratio in known if ratio is not None]
    if best:
        xs, ys = zip(*best, strict=True)
        axes.step(xs, ys, where="post", color=style.BEST, linewidth=2.0, zorder=5)
        _name_best(axes, *best[-1])


def _name_best(axes: Axes, x: float, y: float) -> None:
    """Write the best at the end of its line, and where the baseline's is near, off both."""
    (_, height), (_, baseline) = axes.transData.transform([(x, y), (x, 100.0)])
    is_near = abs(height - baseline) * 72 / axes.figure.dpi < _NEAR_PT
    align = "center" if not is_near else "top" if y <= 100 else "bottom"
    offset = 5, {"center": 0.0, "top": -3.0, "bottom": 3.0}[align]
    look = {"va": align, "fontweight": "bold", "annotation_clip": False, "zorder": 6}
    style.note(axes, f"{y:.3g} %", (x, y), offset, size=9, color=style.BEST, **look)


def _scatter(
    axes: Axes, shown: Sequence[tuple[float, Step]], result: SearchResult, top: float
) -> None:
    """Draw a dot for each trial; what lies beyond the axis points there."""
    baseline = result.problem.space.baseline
    allowed = {row.configuration for row in result.rows if row.is_feasible}
    for x, step in shown:
        if step.cost_ratio is None:
            continue
        y, candidate = 100 * step.cost_ratio, step.outcome.candidate
        color = style.CAPPED if candidate == baseline else style.CURVE
        is_within = y <= top
        axes.plot(
            x, min(y, top), marker="o" if is_within else "^", color=color,
            markersize=3.6 if is_within else 4.5, alpha=0.7 if is_within else 0.3,
            markerfacecolor=color if candidate in allowed else "none",
            markeredgewidth=0.7, clip_on=is_within, zorder=3,
        )  # fmt: skip
