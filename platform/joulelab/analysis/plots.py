"""A phase of a sweep on one page: energy, time and objective over the clock, and the trade-off.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from math import isfinite
from operator import attrgetter

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis import style
from joulelab.analysis.labels import Label, joined, write_labels
from joulelab.analysis.quantities import point_name, si_scale, upper
from joulelab.analysis.sweep import PhaseResult, SweepRow, cost_of
from joulelab.analysis.wording import boards_counted, sentence
from joulelab.objectives import EDP, ENERGY, OBJECTIVES, TIME, Objective

SweepDot = style.Dot[SweepRow]


def can_plot(phase: PhaseResult) -> bool:
    """Whether there are at least two points to draw."""
    return sum(row.clock_mhz is not None for row, _ in phase.measured) > 1


@style.in_style
def phase_figure(phase: PhaseResult, *, with_head: bool = True) -> Figure:
    """Draw a phase that :func:`can_plot`, with the recommendation above the panels."""
    answer = [style.headline(sentence(phase))] if with_head else []
    figure = style.headed_figure(answer, _about(phase), panels_in=6.6, size=13)
    figure.subplots_adjust(wspace=0.15, hspace=0.52)
    grid = figure.subplots(2, 2)
    for axes, draw in zip(grid.flat, phase_panels(phase).values(), strict=True):
        draw(axes)
    return figure


def phase_panels(phase: PhaseResult) -> dict[str, Callable[[Axes], None]]:
    """Return what draws each panel of a phase that :func:`can_plot`, by the panel's name."""
    aim = OBJECTIVES[phase.objective]
    costs = ENERGY, TIME, EDP if aim in (ENERGY, TIME) else aim
    return {
        **{cost.name: partial(over_clock, phase=phase, cost=cost) for cost in costs},
        "trade-off": partial(trade_off, phase=phase),
    }


def _about(phase: PhaseResult) -> str:
    num = sum(row.num_valid for row in phase.rows)
    return (
        f"{phase.title} on {boards_counted(phase.boards)}, {num} valid measurements. "
        "Green: statistically indistinguishable from the lowest "
        f"{OBJECTIVES[phase.objective].label}, which has a ring ({phase.level:.0%}); named: the "
        f"fastest of these. Bars: expanded uncertainty, k={style.COVERAGE}. Triangles: beyond the "
        "axis."
    )


def phase_caption(phase: PhaseResult) -> str:
    """Say what the panels show, and what their marks mean."""
    aim = OBJECTIVES[phase.objective].label
    effect = f" {phase.temperature.words}" if phase.temperature else ""
    return (
        f"Energy, time and {aim} per {phase.unit} over the requested SM clock, and energy against "
        "time. Green: clocks that are statistically indistinguishable from the one of the lowest "
        f"{aim}, which has a ring ({100 * phase.level:.0f} %); the one that is named is the "
        "fastest of them. Bars: expanded uncertainty, k=2. The thick line is the Pareto front."
        f"{effect}"
    )


def over_clock(axes: Axes, phase: PhaseResult, *, cost: Objective) -> None:
    """Draw what a unit of work costs over the SM clock."""
    name, unit, values = cost_of(cost, phase.unit)
    found = [(row, row.clock_mhz, *values(f)) for row, f in phase.measured if row.clock_mhz]
    factor, prefix = si_scale(value for _, _, value, _ in found)
    dots = [style.Dot(row=row, x=x, y=y * factor, y_u=u * factor) for row, x, y, u in found]
    clocks = [dot.x for dot in dots] + [_clock(r) for r in phase.rows if r.point.sm_clock_mhz]
    length = max(clocks) - min(clocks) or 1.0
    axes.set_xlim(min(clocks) - 0.04 * length, max(clocks) + 0.04 * length)
    style.tidy(axes, upper(name), f"{prefix}{unit}", "SM clock, MHz")
    low, high = min(dot.y for dot in dots), max(dot.y for dot in dots)
    high = min(high, 2.2 * low)  # the slowest clocks would flatten all others
    axes.set_ylim(low - 0.2 * (high - low) - 0.01 * low, high + 0.14 * (high - low) + 0.01 * low)
    _draw(axes, dots)
    bottom, top = axes.get_ylim()
    is_last_low = max(dots, key=attrgetter("x")).y < (bottom + top) / 2
    _name(axes, dots, _shaded(axes, phase, top if is_last_low else bottom))
    _mark_beyond(axes, [(dot.x, top) for dot in dots if dot.y > top], "^")


def trade_off(axes: Axes, phase: PhaseResult) -> None:
    """Draw energy against time, each relative to the default point if there is one."""
    default = phase.default
    reference = default.figures if default else None
    if reference is None:
        reference = phase.measured[0][1]
        x_name, y_name = "time against the first row, %", "energy against the first row, %"
    else:
        x_name, y_name = "time against the default, %", "energy against the default, %"
    dots = [
        style.Dot(
            row=row,
            x=100 * (f.time_per_unit_s / reference.time_per_unit_s - 1),
            y=100 * (f.energy_per_unit_j / reference.energy_per_unit_j - 1),
            x_u=100 * f.time_per_unit_u_s / reference.time_per_unit_s,
            y_u=100 * f.energy_per_unit_u_j / reference.energy_per_unit_j,
        )
        for row, f in phase.measured
    ]
    style.tidy(axes, "Trade-off", y_name, x_name)
    front = sorted(
        (d for d in dots if d.row.figures and d.row.figures.on_front), key=attrgetter("x")
    )
    # as wide as times are uncertain at least, else their scatter would look like a trade-off
    ends = [x for dot in front for x, _ in dot.bars if isfinite(x)]
    length = max(ends) - min(ends) or 1.0
    axes.set_xlim(min(ends) - 0.08 * length, max(ends) + 0.55 * length)
    within = [dot.y for dot in dots if dot.x <= axes.get_xlim()[1]]
    height = max(within) - min(within) or 1.0
    axes.set_ylim(min(within) - 0.2 * height, max(within) + 0.14 * height)
    axes.plot(
        [d.x for d in front], [d.y for d in front], color=style.CURVE, linewidth=5, alpha=0.18
    )
    _draw(axes, dots)
    _name(axes, dots)
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    beyond = [(right, min(dot.y, top)) for dot in dots if dot.x > right]
    _mark_beyond(axes, beyond, ">")


def _mark_beyond(axes: Axes, places: Sequence[tuple[float, float]], marker: str) -> None:
    """Mark where points lie beyond the axes, which would flatten all others if they did not."""
    if not places:
        return
    xs, ys = zip(*places, strict=True)
    axes.plot(
        xs, ys, marker, color=style.CURVE, markersize=5, linestyle="", clip_on=False, zorder=5
    )
    beyond = f"{len(places)} beyond the axis"
    style.note(
        axes, beyond, (1, 1), (0, 17), xycoords="axes fraction", ha="right", color=style.CURVE
    )


def _draw(axes: Axes, dots: Sequence[SweepDot]) -> None:
    requested = sorted((dot for dot in dots if not dot.row.point.is_default), key=attrgetter("x"))
    axes.plot(
        [d.x for d in requested], [d.y for d in requested], color=style.CURVE, lw=1, alpha=0.35
    )
    for is_member, color in ((False, style.CURVE), (True, style.EQUAL)):
        some = [dot for dot in requested if dot.row.in_set == is_member]
        style.draw_dots(
            axes, some, fmt="o", color=color, markersize=3.2, zorder=4 if is_member else 3
        )


def _name(axes: Axes, dots: Sequence[SweepDot], others: Sequence[Label] = ()) -> None:
    """Name the recommended and the default point and others, and put a ring around the lowest."""
    names: list[Label] = []
    for dot in dots:
        if dot.row.is_lowest:
            axes.plot(dot.x, dot.y, "o", color=style.BEST, markersize=9, fillstyle="none", zorder=5)
        if dot.row.is_recommended:
            names.insert(0, _called_out(axes, dot, point_name(dot.row.point), style.BEST, "o"))
        elif dot.row.point.is_default:
            names.append(_called_out(axes, dot, "default", style.INK, "D"))
    requested = sorted((dot for dot in dots if not dot.row.point.is_default), key=attrgetter("x"))
    curve = joined(axes, [(dot.x, dot.y) for dot in requested])
    write_labels(
        axes,
        [*names, *others],
        [place for dot in dots for place in dot.bars] + curve,
        ringed=[(dot.x, dot.y) for dot in dots if dot.row.is_lowest and not dot.row.is_recommended],
    )


def _called_out(axes: Axes, dot: SweepDot, text: str, color: str, marker: str) -> Label:
    style.draw_dots(axes, [dot], fmt=marker, color=color, markersize=6, zorder=6)
    return Label(x=dot.x, y=dot.y, text=text, color=color, is_strong=True)


def _shaded(axes: Axes, phase: PhaseResult, named_at: float) -> list[Label]:
    """Mark the clocks that may be best, and those that the power cap did not allow; name these."""
    rows = sorted((row for row in phase.rows if row.point.sm_clock_mhz), key=_clock)
    for start, stop in _runs(rows, [row.in_set for row in rows]):
        axes.axvspan(start, stop, color=style.EQUAL, alpha=0.15, linewidth=0, zorder=0)
    capped = list(_runs(rows, [row.power_capped for row in rows]))
    for start, stop in capped:
        axes.axvspan(start, stop, color=style.CAPPED, alpha=0.18, linewidth=0, zorder=0)
    return [
        Label(x=stop, y=named_at, text="power-capped", color=style.MUTED, is_strong=False, size=8)
        for _, stop in capped[:1]
    ]


def _runs(rows: Sequence[SweepRow], marked: Sequence[bool]) -> Iterator[tuple[float, float]]:
    """Yield the ends of each unbroken run of marked rows, half a step beyond its clocks."""
    clocks = [_clock(row) for row in rows]
    edges = [(a + b) / 2 for a, b in pairwise(clocks)]
    edges = [clocks[0], *edges, clocks[-1]] if clocks else []
    for is_marked, run in groupby(range(len(rows)), key=lambda i: marked[i]):
        places = list(run)
        if is_marked:
            yield edges[places[0]], edges[places[-1] + 1]


def _clock(row: SweepRow) -> float:
    return float(row.point.sm_clock_mhz or 0)
