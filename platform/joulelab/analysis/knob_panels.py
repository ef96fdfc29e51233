"""The panels of a knob study's plot: a quantity over the last knob, or two against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from joulelab.analysis.knob_findings import crossover, losses
from joulelab.analysis.knob_study import KnobPhase, KnobRow, Panel
from joulelab.analysis.panels import COVERAGE
from joulelab.analysis.plain_axes import is_wide, limits, plain_log_ticks
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.style import BEST, CURVE, EQUAL, INK, MUTED, tidy
from joulelab.analysis.sweep import Figures
from joulelab.core.configuration import KnobValue

# Okabe and Ito again, in an order in which neighbours differ most.
INKS = (CURVE, BEST, EQUAL, "#cc79a7", "#e69f00", "#56b4e9", INK)
_MARKERS = "osD^vP*"
_LINE_PT = 11.0
"""Least distance between two names."""
_LETTER_PT = 4.6
"""Width of a letter beside a dot, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    row: KnobRow
    x: float
    y: float
    u: float


def draw_panel(axes: Axes, phase: KnobPhase, panel: Panel) -> None:
    """Draw one panel of a phase that has figures."""
    curves = {series: _dots(phase, rows, panel) for series, rows in phase.curves.items()}
    curves = {series: dots for series, dots in curves.items() if dots}
    if not curves:
        axes.set_axis_off()
        return
    every = [dot for dots in curves.values() for dot in dots]
    y_factor, y_unit = _scale(phase, panel, [dot.y for dot in every])
    x_factor, x_label = _x_scale(phase, panel, [dot.x for dot in every])
    scaled = {
        series: [
            _Dot(row=d.row, x=d.x * x_factor, y=d.y * y_factor, u=d.u * y_factor) for d in dots
        ]
        for series, dots in curves.items()
    }
    tidy(axes, _title(phase, panel), y_unit, x_label)
    _set_axes(axes, phase, panel, [dot for dots in scaled.values() for dot in dots])
    for index, dots in enumerate(scaled.values()):
        _draw(axes, dots, index)
    if panel == "energy":
        _mark_losses(axes, phase, scaled)
    is_pair = panel in {"trade", "quality"}
    if is_pair or phase.axes[-1].places is not None:
        _name_dots(axes, phase, list(scaled.values()))
    if len(scaled) > 1:
        ends = [(phase.curve_name(series), dots[-1]) for series, dots in scaled.items()]
        _name_curves(axes, ends, in_line=not is_pair)


def _dots(phase: KnobPhase, rows: Sequence[tuple[KnobRow, Figures]], panel: Panel) -> list[_Dot]:
    axis = phase.axes[-1]
    dots = []
    for row, figures in rows:
        energy_j, energy_u_j = figures.energy_per_unit_j, figures.energy_per_unit_u_j
        rate = 1 / figures.time_per_unit_s
        rate_u = rate * figures.time_per_unit_u_s / figures.time_per_unit_s
        if panel == "quality":
            if row.quality:
                kept = row.quality[0]
                dots.append(_Dot(row=row, x=energy_j, y=kept.score, u=kept.score_u or 0.0))
            continue
        x = rate if panel == "trade" else axis.place(row.x)
        y, u = {
            "energy": (energy_j, energy_u_j),
            "trade": (energy_j, energy_u_j),
            "time": (figures.time_per_unit_s, figures.time_per_unit_u_s),
            "throughput": (rate, rate_u),
        }[panel]
        dots.append(_Dot(row=row, x=x, y=y, u=u))
    return sorted(dots, key=lambda dot: axis.place(dot.row.x))


def _title(phase: KnobPhase, panel: Panel) -> str:
    names = {"energy": "energy", "time": "time", "throughput": "throughput"}
    if panel == "trade":
        return f"{phase.title}: energy against throughput"
    return f"{phase.title}: {names.get(panel, 'quality against energy')}"


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
        [dot.x for dot in dots],
        [dot.y for dot in dots],
        yerr=[COVERAGE * dot.u for dot in dots],
        color=INKS[index % len(INKS)],
        marker=_MARKERS[index // len(INKS) % len(_MARKERS)],
        markersize=4,
        linewidth=1.2,
        elinewidth=0.9,
        capsize=2,
        zorder=3,
    )


def _mark_losses(
    axes: Axes, phase: KnobPhase, curves: Mapping[tuple[KnobValue, ...], list[_Dot]]
) -> None:
    """Cross out what loses to a wider format, and say where the two curves meet."""
    lost = losses(phase)
    labels = {loss.row.case.label for loss in lost}
    crossed = [dot for dots in curves.values() for dot in dots if dot.row.case.label in labels]
    axes.plot(
        [dot.x for dot in crossed],
        [dot.y for dot in crossed],
        linestyle="",
        marker="x",
        markersize=9,
        markeredgewidth=1.6,
        color=INK,
        zorder=5,
    )
    if not phase.axes[-1].is_number or phase.axes[-1].places is not None:
        return
    pairs = dict.fromkeys((loss.row.series, loss.to.series) for loss in lost)
    for number, (narrow, wide) in enumerate(pairs):
        near = crossover(phase.curves[narrow], phase.curves[wide])
        if near is None:
            continue
        axes.axvline(near, color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
        axes.annotate(
            f"{phase.curve_name(narrow)} = {phase.curve_name(wide)}",
            (near, 0.02 + 0.07 * number),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            color=MUTED,
            fontsize=8,
        )


def _name_dots(axes: Axes, phase: KnobPhase, curves: Sequence[Sequence[_Dot]]) -> None:
    """Write the value of the last knob beside the dots of the curve that has most of them."""
    axis, point = phase.axes[-1], 72 / axes.figure.dpi
    taken: list[tuple[float, float]] = []
    dots = max(curves, key=len)
    for dot in dots if len(curves) == 1 else dots[:-1]:  # beside the last is the curve's name
        x, y = (float(part) for part in point * axes.transData.transform((dot.x, dot.y)))
        text = axis.text(dot.row.x)
        width = _LETTER_PT * len(text)
        free = [
            up
            for up in (5.0, -5.0)
            if not any(abs(x - u) < width and abs(y + 2 * up - v) < _LINE_PT for u, v in taken)
        ]
        if not free:
            continue
        taken.append((x, y + 2 * free[0]))
        is_far_right = x + width > point * axes.bbox.x1
        axes.annotate(
            text,
            (dot.x, dot.y),
            xytext=(-5 if is_far_right else 5, free[0]),
            textcoords="offset points",
            ha="right" if is_far_right else "left",
            va="bottom" if free[0] > 0 else "top",
            color=MUTED,
            fontsize=7.5,
        )


def _name_curves(axes: Axes, ends: Sequence[tuple[str, _Dot]], *, in_line: bool) -> None:
    """Write the name of each curve beside its last dot, no two upon each other.

    Args:
        axes: Where to write.
        ends: The names, and the last dots.
        in_line: Whether all names stand right of all dots.
    """
    point = 72 / axes.figure.dpi
    places = [point * axes.transData.transform((dot.x, dot.y)) for _, dot in ends]
    right = max(float(x) for x, _ in places)
    heights = apart([float(y) for _, y in places], _LINE_PT, point * axes.bbox.y1)
    for index, (name, dot) in enumerate(ends):
        x, y = (float(part) for part in places[index])
        axes.annotate(
            name,
            (dot.x, dot.y),
            xytext=((right - x if in_line else 0) + 9, heights[index] - y),
            textcoords="offset points",
            va="center",
            color=INKS[index % len(INKS)],
            fontsize=8.5,
            fontweight="bold",
            annotation_clip=False,
        )


def apart(heights: Sequence[float], least: float, ceiling: float) -> list[float]:
    """Move ``heights`` as little as it takes to keep them ``least`` apart.

    Args:
        heights: Where each would best be.
        least: Least distance of two.
        ceiling: What the highest stays below, if they can.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + least)
    for rank, i in enumerate(reversed(order)):
        moved[i] = min(moved[i], ceiling - rank * least)
    return moved
