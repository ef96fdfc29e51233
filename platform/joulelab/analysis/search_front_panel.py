"""Energy against time of what a search measured, with the front, the knee and the choice."""

from collections.abc import Sequence
from math import inf, log
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from joulelab.analysis import style
from joulelab.analysis.labels import Label, joined, write_labels
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.search_result import SearchResult, SearchRow
from joulelab.analysis.search_wording import configuration_name
from joulelab.core.grouping import grouped_by

_QUALITIES = "viridis_r"
_NEAR, _FAR = log(1.08), log(2.5)
"""What is shown around the choice at least, and what is not, as logarithms of ratios to it."""
_FEWEST = 4
"""Of the dots around the choice; where fewer are that near, the nearer half of all is shown."""
_CROWDED = 0.5
"""Part of the whole that what lies around the choice takes up where it deserves a panel."""


_Dot = style.Dot[SearchRow]


def draw_front(figure: Figure, result: SearchResult, *, upright: bool = False) -> None:
    """Draw everything that was measured, and what stands out of it.

    Where that ranges far, a second panel, below the first if ``upright``, shows what lies around
    the choice. At least two configurations have figures.
    """
    dots, time_prefix, energy_prefix = _dots(result)
    units = f"{energy_prefix}J/{result.unit}", f"time, {time_prefix}s/{result.unit}"
    near = _near(dots)
    shown = [("Everything that was measured", dots)]
    if len(near) > 2 and min(_length(near, d) / _length(dots, d) for d in "xy") < _CROWDED:
        shown.append(("Around the choice", near))
    shape = (len(shown), 1) if upright else (1, len(shown))
    panels = list(figure.subplots(*shape, squeeze=False).flat)
    paint = _quality_paint(panels, dots) if result.has_quality else None
    for axes, (title, some) in zip(panels, shown, strict=True):
        style.tidy(axes, title, *units)
        xs, ys = zip(*_places(some), strict=True)
        style.fit_axis(axes, "x", xs, has_log=style.is_wide(xs), below=0.06, above=0.12)
        style.fit_axis(axes, "y", ys, has_log=style.is_wide(ys), below=0.1, above=0.08)
        _draw_panel(axes, result, some, paint, has_names=axes is panels[-1])


def _places(dots: Sequence[_Dot]) -> list[style.Place]:
    """Return where dots are, and the bars of those on the front: their scatter is no trade-off."""
    ends = [place for dot in dots if dot.row.on_front for place in dot.bars]
    return [(dot.x, dot.y) for dot in dots] + [(x, y) for x, y in ends if 0 < x * y < inf]


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
            [dot.x for dot in line], [dot.y for dot in line], linewidth=5, alpha=0.2, zorder=2,
            color=style.MUTED if result.has_quality else style.CURVE, solid_capstyle="round",
        )  # fmt: skip
    for dot in dots:
        _draw(axes, dot, paint, has_knee=len(result.answer.front) > 1)
    labels = _labels(result, dots, front)
    if not has_names:
        labels = [label for label in labels if label.is_strong]
    along = [place for line in lines for place in joined(axes, [(d.x, d.y) for d in line])]
    write_labels(axes, labels, [place for dot in dots for place in dot.bars] + along)


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
    far = sorted(map(distance, dots))
    if sum(each <= reach for each in far) < _FEWEST:
        reach = max(reach, 1.05 * far[len(far) // 2])
    return [dot for dot in dots if distance(dot) <= reach]


def _dots(result: SearchResult) -> tuple[list[_Dot], str, str]:
    found = [(row, found.figures) for row, found in result.measured]
    energy, energy_prefix = si_scale(figures.energy_j for _, figures in found)
    time, time_prefix = si_scale(figures.time_s for _, figures in found)
    dots = [
        style.Dot(
            row=row,
            x=figures.time_s * time,
            y=figures.energy_j * energy,
            x_u=figures.time_u_s * time,
            y_u=figures.energy_u_j * energy,
        )
        for row, figures in found
    ]
    return dots, time_prefix, energy_prefix


def _lines(front: Sequence[_Dot], *, has_quality: bool) -> list[list[_Dot]]:
    return list(grouped_by(front, lambda dot: _retention(dot) if has_quality else None).values())


def _quality_paint(panels: Sequence[Axes], dots: Sequence[_Dot]) -> ScalarMappable:
    """Return colours for what is kept of the quality, with their key beside ``panels``."""
    kept = [100 * share for share in map(_retention, dots) if share is not None]
    low, high = min(kept), max(kept)
    if high - low < 1.0:  # what differs by less looks alike
        low, high = (low + high - 1.0) / 2, (low + high + 1.0) / 2
    paint = ScalarMappable(Normalize(low, high), colormaps[_QUALITIES])
    figure: Any = panels[0].figure
    key = figure.colorbar(paint, ax=list(panels), fraction=0.02, pad=0.015, aspect=30)
    key.outline.set_visible(False)
    key.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    key.ax.tick_params(length=0, labelsize=8)
    key.ax.set_title("quality\nkept, %", fontsize=8, color=style.MUTED, loc="left", pad=6)
    return paint


def _draw(axes: Axes, dot: _Dot, paint: ScalarMappable | None, *, has_knee: bool) -> None:
    row = dot.row
    ink, size, order = _ink(row)
    fill, retention = ink, _retention(dot)
    if paint is not None and retention is not None:
        low, high = paint.get_clim()
        fill = to_hex(colormaps[_QUALITIES]((100 * retention - low) / (high - low)))
        ink = ink if row.is_best or row.is_baseline or row.in_set else fill
    style.draw_dots(
        axes, [dot], fmt="D" if row.is_baseline else "o", color=ink, markersize=size,
        markerfacecolor=fill if row.is_feasible else style.PAPER,
        markeredgewidth=1.6 if ink != fill else 1.0,
        alpha=1.0 if order > 3 or paint is not None else 0.4, zorder=order,
    )  # fmt: skip
    if row.is_knee and has_knee:
        axes.plot(
            dot.x, dot.y, marker="o", markersize=size + 6, markerfacecolor="none",
            markeredgecolor=style.INK, markeredgewidth=0.9, zorder=order + 1,
        )  # fmt: skip


def _retention(dot: _Dot) -> float | None:
    return None if dot.row.found is None else dot.row.found.figures.retention


def _ink(row: SearchRow) -> tuple[str, float, int]:
    if row.is_best:
        return style.BEST, 7.0, 8
    if row.is_baseline:
        return style.INK, 6.0, 7
    if row.in_set:
        return style.EQUAL, 4.5, 6
    return style.CURVE, 4.0, 4 if row.on_front else 3


def _labels(result: SearchResult, dots: Sequence[_Dot], front: Sequence[_Dot]) -> list[Label]:
    """Name the choice, the baseline, the knee, and the two ends of the front, each once."""
    wanted = [
        *((dot, "", style.BEST) for dot in dots if dot.row.is_best),
        *((dot, "", style.INK) for dot in dots if dot.row.is_baseline),
        *((dot, "knee: ", style.INK) for dot in dots if dot.row.is_knee),
        *((dot, "", style.MUTED) for dot in (*front[:1], *front[-1:])),
    ]
    named = {each[0].row.configuration: each for each in reversed(wanted)}
    space, labels = result.problem.space, []
    for configuration in dict.fromkeys(dot.row.configuration for dot, _, _ in wanted):
        dot, before, color = named[configuration]
        text = "baseline" if dot.row.is_baseline else configuration_name(configuration, space)
        is_strong = dot.row.is_best or dot.row.is_baseline
        labels.append(
            Label(x=dot.x, y=dot.y, text=f"{before}{text}", color=color, is_strong=is_strong)
        )
    return labels
