"""A study of knobs on one page: a row of panels for each phase.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from joulelab.analysis import style
from joulelab.analysis.compared import Figures
from joulelab.analysis.knob_grid import Panel
from joulelab.analysis.knob_study import KnobPhase, KnobRow
from joulelab.analysis.knob_wording import crossover, losses
from joulelab.analysis.labels import Label, joined, write_at_ends, write_labels
from joulelab.analysis.quantities import si_scale
from joulelab.core.configuration import KnobValue
from joulelab.core.device import board_words

_ROW_IN = 3.4
_PAIRS = ("trade", "quality")  # panels of a quantity against another one
_MOST_LINES = 4  # of an answer above the panels


@style.in_style
def knob_figure(phases: Sequence[KnobPhase], panels: Sequence[Panel], answer: str = "") -> Figure:
    """Draw phases that have figures, a row each, below what ``answer`` says."""
    lines = [style.headline(line) for line in answer.splitlines()]
    if sum(len(wrap(line, 104)) for line in lines) > _MOST_LINES:
        where = board_words(phases[0].boards[0])
        lines = [f"{phases[0].workload} on {where}: the answers are in the report"]
    height_in = _ROW_IN * len(phases)
    figure = style.headed_figure(lines, caption(*phases), panels_in=height_in, size=11)
    figure.subplots_adjust(wspace=0.16, hspace=0.48)
    grid = figure.subplots(len(phases), len(panels), squeeze=False)
    for row, phase in zip(grid, phases, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            draw_panel(axes, phase, panel)
    return figure


def caption(*phases: KnobPhase) -> str:
    """Say what was measured, and what the marks of the plot mean."""
    phase = phases[0]
    num = sum(row.num_valid for row in phase.rows)
    crosses = " Crosses: takes more energy than a wider format."
    return (
        f"{phase.workload} on {board_words(phase.boards[0])} at the driver's own clocks, "
        f"{num} valid measurements. Bars: expanded uncertainty, k={style.COVERAGE}."
        f"{crosses if any(losses(each) for each in phases) else ''}"
    )


# Okabe and Ito again, in an order in which neighbours differ most.
INKS = (style.CURVE, style.BEST, style.EQUAL, "#cc79a7", "#e69f00", "#56b4e9", style.INK)
_MARKERS = "osD^vP*"
_TITLES: dict[Panel, str] = {
    "energy": "energy",
    "time": "time",
    "throughput": "throughput",
    "trade": "energy against throughput",
    "quality": "quality against energy",
}


KnobDot = style.Dot[KnobRow]


_Curves = Mapping[tuple[KnobValue, ...], list[KnobDot]]


def draw_panel(axes: Axes, phase: KnobPhase, panel: Panel) -> None:
    """Draw one panel of a phase that has figures."""
    places = {row: _place(phase, row, figures, panel) for row, figures in phase.measured}
    found = {row: place for row, place in places.items() if place is not None}
    if not found:
        axes.set_axis_off()
        return
    x_name = {"trade": "throughput", "quality": "energy"}.get(panel, "")
    x_factor, x_label = _scale(phase, x_name, [x for x, _, _ in found.values()])
    y_factor, y_unit = _scale(phase, panel, [y for _, y, _ in found.values()])
    drawn: defaultdict[tuple[KnobValue, ...], list[KnobDot]] = defaultdict(list)
    for row, (x, y, u) in sorted(found.items(), key=lambda pair: phase.axes[-1].place(pair[0].x)):
        dot = style.Dot(row=row, x=x * x_factor, y=y * y_factor, y_u=u * y_factor)
        drawn[row.series].append(dot)
    curves = {series: drawn[series] for series in phase.curves if series in drawn}
    style.tidy(axes, f"{phase.title}: {_TITLES[panel]}", y_unit, x_label)
    _set_axes(axes, phase, panel, [dot for dots in curves.values() for dot in dots])
    for index, dots in enumerate(curves.values()):
        _draw(axes, dots, index)
    if panel == "energy":
        _mark_losses(axes, phase, curves)
    is_pair = panel in _PAIRS
    names = _curve_names(phase, curves) if len(curves) > 1 else []
    has_dots = is_pair or phase.axes[-1].places is not None
    written = [] if is_pair or not names else write_at_ends(axes, names)
    labels = [*(names if is_pair else ()), *(_dot_names(phase, curves) if has_dots else ())]
    bars = [place for curve in curves.values() for dot in curve for place in dot.bar]
    lines = [
        place
        for curve in curves.values()
        for place in joined(axes, [(dot.x, dot.y) for dot in curve])
    ]
    write_labels(axes, labels, bars + lines, written=written)


def _place(
    phase: KnobPhase, row: KnobRow, figures: Figures, panel: Panel
) -> tuple[float, float, float] | None:
    """Return where a row stands in SI units, with the uncertainty of the height."""
    energy_j, energy_u_j = figures.energy_per_unit_j, figures.energy_per_unit_u_j
    time_s, time_u_s = figures.time_per_unit_s, figures.time_per_unit_u_s
    if panel == "quality":
        kept = row.quality[0] if row.quality else None
        return None if kept is None else (energy_j, kept.score, kept.score_u or 0.0)
    x = 1 / time_s if panel == "trade" else phase.axes[-1].place(row.x)
    if panel == "time":
        return x, time_s, time_u_s
    if panel == "throughput":
        return x, 1 / time_s, 1 / time_s * time_u_s / time_s
    return x, energy_j, energy_u_j


def _scale(phase: KnobPhase, name: str, values: Sequence[float]) -> tuple[float, str]:
    """Return by what to multiply a quantity, and its unit; without a name, of the last axis."""
    if not name:
        return 1.0, phase.axes[-1].title
    if name == "quality":
        first = next(row.quality[0] for row, _ in phase.measured if row.quality)
        return 1.0, f"{first.metric.replace('_', ' ')}, {first.direction} is better"
    if name == "throughput":
        return 1.0, f"{phase.unit}/s"
    factor, prefix = si_scale(values)
    return factor, f"{prefix}{'s' if name == 'time' else 'J'}/{phase.unit}"


def _set_axes(axes: Axes, phase: KnobPhase, panel: Panel, dots: Sequence[KnobDot]) -> None:
    axis = phase.axes[-1]
    is_place = panel not in _PAIRS
    xs = [dot.x for dot in dots]
    has_log_x = (axis.is_number or not is_place) and style.is_wide(xs)
    room = 0.34 if len(phase.curves) > 1 else 0.08
    style.fit_axis(axes, "x", xs, has_log=has_log_x, below=0.08, above=room)
    if is_place and axis.places is None:
        axes.xaxis.set_major_locator(FixedLocator([axis.place(value) for value in axis.values]))
        axes.xaxis.set_major_formatter(FixedFormatter([str(value) for value in axis.values]))
        axes.xaxis.set_minor_locator(NullLocator())
    ends = [end for dot in dots for _, end in dot.bar]
    has_log_y = min(ends) > 0 and style.is_wide([dot.y for dot in dots]) and panel != "quality"
    style.fit_axis(axes, "y", ends, has_log=has_log_y, below=0.14, above=0.14)


def _draw(axes: Axes, dots: Sequence[KnobDot], index: int) -> None:
    marker = _MARKERS[index // len(INKS) % len(_MARKERS)]
    color = INKS[index % len(INKS)]
    style.draw_dots(
        axes, dots, color=color, marker=marker, markersize=4, linewidth=1.2, capsize=2, zorder=3
    )


def _mark_losses(axes: Axes, phase: KnobPhase, curves: _Curves) -> None:
    lost = losses(phase)
    labels = {loss.row.case.label for loss in lost}
    crossed = [dot for dots in curves.values() for dot in dots if dot.row.case.label in labels]
    axes.plot(
        [dot.x for dot in crossed], [dot.y for dot in crossed], linestyle="", marker="x",
        markersize=9, markeredgewidth=1.6, color=style.INK, zorder=5,
    )  # fmt: skip
    if not phase.axes[-1].is_number or phase.axes[-1].places is not None:
        return
    pairs = dict.fromkeys((loss.row.series, loss.to.series) for loss in lost)
    for number, (narrow, wide) in enumerate(pairs):
        near = crossover(phase.curves[narrow], phase.curves[wide])
        if near is None:
            continue
        axes.axvline(near, color=style.MUTED, linewidth=0.8, linestyle=":", zorder=1)
        name = f"{phase.curve_name(narrow)} = {phase.curve_name(wide)}"
        at = near, 0.02 + 0.07 * number
        style.note(axes, name, at, (3, 0), size=8, xycoords=("data", "axes fraction"))


def _curve_names(phase: KnobPhase, curves: _Curves) -> list[Label]:
    return [
        Label(
            x=dots[-1].x, y=dots[-1].y, text=phase.curve_name(series),
            color=INKS[index % len(INKS)], is_strong=True, size=8.5,
        )
        for index, (series, dots) in enumerate(curves.items())
    ]  # fmt: skip


def _dot_names(phase: KnobPhase, curves: _Curves) -> list[Label]:
    """Name the dots of the curve that has most of them by the last knob, its ends first."""
    axis, dots = phase.axes[-1], max(curves.values(), key=len)
    named = dots if len(curves) == 1 else dots[:-1]  # beside the last is the curve's name
    return [
        Label(
            x=dot.x, y=dot.y, text=axis.text(dot.row.x), color=style.MUTED, is_strong=False,
            size=7.5, can_go=True,
        )
        for dot in sorted(named, key=lambda dot: dot not in (named[0], named[-1]))
    ]  # fmt: skip
