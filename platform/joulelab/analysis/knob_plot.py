"""A study of knobs on one page: a row of panels for each phase.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from joulelab.analysis.compared import Figures
from joulelab.analysis.figure_file import headed_figure, headline
from joulelab.analysis.knob_findings import crossover, losses
from joulelab.analysis.knob_study import KnobPhase, KnobRow, Panel
from joulelab.analysis.labels import Label, write_at_ends, write_labels
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.style import (
    BEST,
    COVERAGE,
    CURVE,
    EQUAL,
    INK,
    MUTED,
    RC,
    is_wide,
    limits,
    plain_log_ticks,
    tidy,
)
from joulelab.analysis.wording import board_words
from joulelab.core.configuration import KnobValue

_ROW_IN = 3.4
_MOST_LINES = 4
"""Of an answer above the panels."""


def knob_figure(phases: Sequence[KnobPhase], panels: Sequence[Panel], answer: str = "") -> Figure:
    """Draw phases that have figures, a row each, below what ``answer`` says."""
    lines = [headline(line) for line in answer.splitlines()]
    if sum(len(wrap(line, 104)) for line in lines) > _MOST_LINES:
        where = board_words(phases[0].boards[0])
        lines = [f"{phases[0].workload} on {where}: the answers are in the report"]
    height_in = _ROW_IN * len(phases)
    with mpl.rc_context(RC):
        figure = headed_figure(lines, caption(*phases), panels_in=height_in, size=11)
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
        f"{num} valid measurements. Bars: expanded uncertainty, k={COVERAGE}."
        f"{crosses if any(losses(each) for each in phases) else ''}"
    )


# Okabe and Ito again, in an order in which neighbours differ most.
INKS = (CURVE, BEST, EQUAL, "#cc79a7", "#e69f00", "#56b4e9", INK)
_MARKERS = "osD^vP*"
_TITLES: dict[Panel, str] = {
    "energy": "energy",
    "time": "time",
    "throughput": "throughput",
    "trade": "energy against throughput",
    "quality": "quality against energy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    row: KnobRow
    x: float
    y: float
    u: float


_Curves = Mapping[tuple[KnobValue, ...], list[_Dot]]


def draw_panel(axes: Axes, phase: KnobPhase, panel: Panel) -> None:
    """Draw one panel of a phase that has figures."""
    places = {row: _place(phase, row, figures, panel) for row, figures in phase.measured}
    found = {row: place for row, place in places.items() if place is not None}
    if not found:
        axes.set_axis_off()
        return
    x_factor, x_label = _x_scale(phase, panel, [x for x, _, _ in found.values()])
    y_factor, y_unit = _scale(phase, panel, [y for _, y, _ in found.values()])
    drawn: defaultdict[tuple[KnobValue, ...], list[_Dot]] = defaultdict(list)
    for row, (x, y, u) in sorted(found.items(), key=lambda pair: phase.axes[-1].place(pair[0].x)):
        drawn[row.series].append(_Dot(row=row, x=x * x_factor, y=y * y_factor, u=u * y_factor))
    curves = {series: drawn[series] for series in phase.curves if series in drawn}
    tidy(axes, f"{phase.title}: {_TITLES[panel]}", y_unit, x_label)
    _set_axes(axes, phase, panel, [dot for dots in curves.values() for dot in dots])
    for index, dots in enumerate(curves.values()):
        _draw(axes, dots, index)
    if panel == "energy":
        _mark_losses(axes, phase, curves)
    is_pair = panel in {"trade", "quality"}
    names = _curve_names(phase, curves) if len(curves) > 1 else []
    has_dots = is_pair or phase.axes[-1].places is not None
    written = [] if is_pair or not names else write_at_ends(axes, names)
    labels = [*(names if is_pair else ()), *(_dot_names(phase, curves) if has_dots else ())]
    covered = [place for dots in curves.values() for place in _covered(axes, dots)]
    write_labels(axes, labels, covered, written)


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


def _scale(phase: KnobPhase, panel: Panel, values: Sequence[float]) -> tuple[float, str]:
    if panel == "quality":
        first = next(row.quality[0] for row, _ in phase.measured if row.quality)
        return 1.0, f"{first.metric.replace('_', ' ')}, {first.direction} is better"
    factor, prefix = si_scale(values)
    unit = {"time": f"s/{phase.unit}", "throughput": f"{phase.unit}/s"}
    if panel == "throughput":
        return 1.0, unit[panel]
    return factor, f"{prefix}{unit.get(panel, f'J/{phase.unit}')}"


def _x_scale(phase: KnobPhase, panel: Panel, values: Sequence[float]) -> tuple[float, str]:
    if panel == "trade":
        return 1.0, f"{phase.unit}/s"
    if panel == "quality":
        factor, prefix = si_scale(values)
        return factor, f"{prefix}J/{phase.unit}"
    return 1.0, phase.axes[-1].title


def _set_axes(axes: Axes, phase: KnobPhase, panel: Panel, dots: Sequence[_Dot]) -> None:
    axis = phase.axes[-1]
    is_place = panel not in {"trade", "quality"}
    xs = [dot.x for dot in dots]
    is_line = axis.is_number or not is_place
    room = 0.34 if len(phase.curves) > 1 else 0.08
    has_log_x = is_line and is_wide(xs)
    if has_log_x:
        axes.set_xscale("log")
    axes.set_xlim(*limits(xs, has_log=has_log_x, below=0.08, above=room))
    if is_place and axis.places is None:
        places = [axis.place(value) for value in axis.values]
        axes.xaxis.set_major_locator(FixedLocator(places))
        names = {axis.place(value): str(value) for value in axis.values}
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names.get(x, f"{x:g}")))
        axes.xaxis.set_minor_locator(NullLocator())
    elif has_log_x:
        plain_log_ticks(axes, "x")
    ends = [dot.y - COVERAGE * dot.u for dot in dots] + [dot.y + COVERAGE * dot.u for dot in dots]
    has_log_y = min(ends) > 0 and is_wide([dot.y for dot in dots]) and panel != "quality"
    if has_log_y:
        axes.set_yscale("log")
        plain_log_ticks(axes, "y")
    axes.set_ylim(*limits(ends, has_log=has_log_y, below=0.14, above=0.14))


def _draw(axes: Axes, dots: Sequence[_Dot], index: int) -> None:
    axes.errorbar(
        [dot.x for dot in dots], [dot.y for dot in dots], [COVERAGE * dot.u for dot in dots],
        color=INKS[index % len(INKS)], marker=_MARKERS[index // len(INKS) % len(_MARKERS)],
        markersize=4, linewidth=1.2, elinewidth=0.9, capsize=2, zorder=3,
    )  # fmt: skip


def _mark_losses(axes: Axes, phase: KnobPhase, curves: _Curves) -> None:
    """Cross out what loses to a wider format, and say where the two curves meet."""
    lost = losses(phase)
    labels = {loss.row.case.label for loss in lost}
    crossed = [dot for dots in curves.values() for dot in dots if dot.row.case.label in labels]
    axes.plot(
        [dot.x for dot in crossed], [dot.y for dot in crossed], linestyle="", marker="x",
        markersize=9, markeredgewidth=1.6, color=INK, zorder=5,
    )  # fmt: skip
    if not phase.axes[-1].is_number or phase.axes[-1].places is not None:
        return
    pairs = dict.fromkeys((loss.row.series, loss.to.series) for loss in lost)
    for number, (narrow, wide) in enumerate(pairs):
        near = crossover(phase.curves[narrow], phase.curves[wide])
        if near is None:
            continue
        axes.axvline(near, color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
        axes.annotate(
            f"{phase.curve_name(narrow)} = {phase.curve_name(wide)}", (near, 0.02 + 0.07 * number),
            xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
            color=MUTED, fontsize=8,
        )  # fmt: skip


def _curve_names(phase: KnobPhase, curves: _Curves) -> list[Label]:
    """Name each curve beside its last dot."""
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
            x=dot.x, y=dot.y, text=axis.text(dot.row.x), color=MUTED, is_strong=False,
            size=7.5, can_go=True,
        )
        for dot in sorted(named, key=lambda dot: dot not in (named[0], named[-1]))
    ]  # fmt: skip


def _covered(axes: Axes, dots: Sequence[_Dot]) -> list[tuple[float, float]]:
    """Return places that names should leave free: dots, bars, and the lines that join the dots."""
    back = axes.transData.inverted()
    ends = [axes.transData.transform((dot.x, dot.y)) for dot in dots]
    lines = [
        tuple(back.transform(a + share * (b - a)))
        for a, b in pairwise(ends)
        for share in np.arange(0.1, 1.0, 0.1)
    ]
    bars = [(d.x, d.y + part * COVERAGE * d.u) for d in dots for part in (-1, -0.5, 0, 0.5, 1)]
    return [*bars, *((float(x), float(y)) for x, y in lines)]
