"""Energy against time of what a search measured, with the front, the knee and the choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from joulelab.analysis.panels import COVERAGE
from joulelab.analysis.plain_axes import is_wide, limits, plain_log_ticks
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.search_labels import Label, write_labels
from joulelab.analysis.search_result import SearchResult, SearchRow
from joulelab.analysis.search_wording import configuration_name
from joulelab.analysis.style import BEST, CURVE, EQUAL, INK, MUTED, PAPER, tidy

_QUALITIES = "viridis_r"
_NEAR, _FAR = log(1.08), log(2.5)
"""What is shown around the choice at least, and what is not, as logarithms of ratios to it."""
_CROWDED = 0.5
"""Part of the whole that what lies around the choice takes up where it deserves a panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """A configuration where it is drawn, with standard uncertainties."""

    row: SearchRow
    x: float
    y: float
    x_u: float
    y_u: float
    retention: float | None


def draw_front(figure: Figure, result: SearchResult) -> None:
    """Draw everything that was measured, and what stands out of it.

    Where that ranges far, a second panel shows what lies around the choice.

    Args:
        figure: Where to draw.
        result: What was found; at least two configurations have figures.
    """
    dots, time_prefix, energy_prefix = _dots(result)
    units = f"{energy_prefix}J/{result.unit}", f"time, {time_prefix}s/{result.unit}"
    near = _near(dots)
    shown = [("Everything that was measured", dots)]
    if len(near) > 2 and min(_length(near, d) / _length(dots, d) for d in "xy") < _CROWDED:
        shown.append(("Around the choice", near))
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    paint = _quality_paint(panels, dots) if result.has_quality else None
    for axes, (title, some) in zip(panels, shown, strict=True):
        tidy(axes, title, *units)
        _set_axes(axes, some)
        _draw_panel(axes, result, some, paint, has_names=axes is panels[-1])


def _draw_panel(
    axes: Axes,
    result: SearchResult,
    dots: Sequence[_Dot],
    paint: ScalarMappable | None,
    *,
    has_names: bool,
) -> None:
    """Draw ``dots``; in the last panel with all names, else with those of choice and baseline."""
    front = sorted((dot for dot in dots if dot.row.on_front), key=lambda dot: dot.x)
    lines = _lines(front, has_quality=result.has_quality)
    for line in lines:
        axes.plot(
            [dot.x for dot in line],
            [dot.y for dot in line],
            color=MUTED if result.has_quality else CURVE,
            linewidth=5,
            alpha=0.2,
            solid_capstyle="round",
            zorder=2,
        )
    for dot in dots:
        _draw(axes, dot, paint, has_knee=len(result.answer.front) > 1)
    labels = _labels(result, dots, front)
    if not has_names:
        labels = [label for label in labels if label.is_strong]
    write_labels(axes, labels, [(dot.x, dot.y) for dot in dots] + _along(lines))


def _length(dots: Sequence[_Dot], direction: str) -> float:
    """Return over what ratios ``dots`` range in a direction, as a logarithm."""
    values = [getattr(dot, direction) for dot in dots]
    return log(max(values) / min(values)) or 1.0


def _near(dots: Sequence[_Dot]) -> list[_Dot]:
    """Return what is about as near to the choice as its equals, the knee and the baseline are."""
    best = next(dot for dot in dots if dot.row.is_best)

    def distance(dot: _Dot) -> float:
        return max(abs(log(dot.x / best.x)), abs(log(dot.y / best.y)))

    wanted = [dot for dot in dots if dot.row.in_set or dot.row.is_knee or dot.row.is_baseline]
    within = [distance(dot) for dot in wanted if distance(dot) <= _FAR]
    reach = max(1.25 * max(within), _NEAR)
    return [dot for dot in dots if distance(dot) <= reach]


def _dots(result: SearchResult) -> tuple[list[_Dot], str, str]:
    found = [(row, found.figures) for row, found in result.measured]
    energy, energy_prefix = si_scale(figures.energy_j for _, figures in found)
    time, time_prefix = si_scale(figures.time_s for _, figures in found)
    dots = [
        _Dot(
            row=row,
            x=figures.time_s * time,
            y=figures.energy_j * energy,
            x_u=figures.time_u_s * time,
            y_u=figures.energy_u_j * energy,
            retention=figures.retention,
        )
        for row, figures in found
    ]
    return dots, time_prefix, energy_prefix


def _set_axes(axes: Axes, dots: Sequence[_Dot]) -> None:
    xs, ys = [dot.x for dot in dots], [dot.y for dot in dots]
    has_log_x, has_log_y = is_wide(xs), is_wide(ys)
    if has_log_x:
        axes.set_xscale("log")
    if has_log_y:
        axes.set_yscale("log")
    axes.set_xlim(*limits(xs, has_log=has_log_x, below=0.06, above=0.12))
    axes.set_ylim(*limits(ys, has_log=has_log_y, below=0.1, above=0.08))
    if has_log_x:
        plain_log_ticks(axes, "x")
    if has_log_y:
        plain_log_ticks(axes, "y")


def _lines(front: Sequence[_Dot], *, has_quality: bool) -> list[list[_Dot]]:
    """Return the dots that are joined: the front, or that of each quality."""
    lines: dict[float | None, list[_Dot]] = {}
    for dot in front:
        lines.setdefault(dot.retention if has_quality else None, []).append(dot)
    return list(lines.values())


def _along(lines: Sequence[Sequence[_Dot]]) -> list[tuple[float, float]]:
    """Return points on the joined front, which names should not cover either."""
    return [
        (a.x + share * (b.x - a.x), a.y + share * (b.y - a.y))
        for line in lines
        for a, b in pairwise(line)
        for share in (0.2, 0.4, 0.6, 0.8)
    ]


def _quality_paint(panels: Sequence[Axes], dots: Sequence[_Dot]) -> ScalarMappable:
    """Return colours for what is kept of the quality, with their key beside ``panels``."""
    kept = [100 * dot.retention for dot in dots if dot.retention is not None]
    low, high = min(kept), max(kept)
    if high - low < 1.0:  # what differs by less looks alike
        low, high = (low + high - 1.0) / 2, (low + high + 1.0) / 2
    paint = ScalarMappable(Normalize(low, high), colormaps[_QUALITIES])
    figure: Any = panels[0].figure
    key = figure.colorbar(paint, ax=list(panels), fraction=0.02, pad=0.015, aspect=30)
    key.outline.set_visible(False)
    key.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    key.ax.tick_params(length=0, labelsize=8)
    key.ax.set_title("quality\nkept, %", fontsize=8, color=MUTED, loc="left", pad=6)
    return paint


def _draw(axes: Axes, dot: _Dot, paint: ScalarMappable | None, *, has_knee: bool) -> None:
    row = dot.row
    ink, size, order = _ink(row)
    fill = ink
    if paint is not None and dot.retention is not None:
        fill = to_hex(colormaps[_QUALITIES](_share(paint, 100 * dot.retention)))
        ink = ink if row.is_best or row.is_baseline or row.in_set else fill
    axes.errorbar(
        dot.x,
        dot.y,
        xerr=COVERAGE * dot.x_u,
        yerr=COVERAGE * dot.y_u,
        fmt="D" if row.is_baseline else "o",
        color=ink,
        markerfacecolor=fill if row.is_feasible else PAPER,
        markersize=size,
        markeredgewidth=1.6 if ink != fill else 1.0,
        elinewidth=0.9,
        alpha=1.0 if order > 3 or paint is not None else 0.4,
        zorder=order,
    )
    if row.is_knee and has_knee:
        axes.plot(
            dot.x,
            dot.y,
            marker="o",
            markersize=size + 6,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=0.9,
            zorder=order + 1,
        )


def _share(paint: ScalarMappable, value: float) -> float:
    low, high = paint.get_clim()
    return (value - low) / (high - low)


def _ink(row: SearchRow) -> tuple[str, float, int]:
    """Return colour, size and order of a configuration's dot."""
    if row.is_best:
        return BEST, 7.0, 8
    if row.is_baseline:
        return INK, 6.0, 7
    if row.in_set:
        return EQUAL, 4.5, 6
    return CURVE, 4.0, 4 if row.on_front else 3


def _labels(result: SearchResult, dots: Sequence[_Dot], front: Sequence[_Dot]) -> list[Label]:
    """Name the choice, the baseline, the knee, and the two ends of the front, each once."""
    space = result.problem.space
    labels: list[Label] = []
    named: set[Any] = set()

    def name(dot: _Dot, before: str, color: str, *, is_strong: bool) -> None:
        if dot.row.configuration in named:
            return
        named.add(dot.row.configuration)
        text = "baseline" if dot.row.is_baseline else configuration_name(
            dot.row.configuration, space
        )  # fmt: skip
        labels.append(
            Label(x=dot.x, y=dot.y, text=f"{before}{text}", color=color, is_strong=is_strong)
        )

    for dot in dots:
        if dot.row.is_best:
            name(dot, "", BEST, is_strong=True)
    for dot in dots:
        if dot.row.is_baseline:
            name(dot, "", INK, is_strong=True)
    for dot in dots:
        if dot.row.is_knee:
            name(dot, "knee: ", INK, is_strong=False)
    for dot in (*front[:1], *front[-1:]):
        name(dot, "", MUTED, is_strong=False)
    return labels
