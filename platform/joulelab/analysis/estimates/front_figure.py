"""The Pareto front of a comparison, drawn."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from joulelab.analysis import style
from joulelab.analysis.estimates import wording
from joulelab.analysis.estimates.front import costs_of
from joulelab.analysis.labels import Label, write_labels
from joulelab.analysis.quantities import si_scale
from joulelab.estimator.question import Cell

_INK = {True: style.BEST, False: style.MUTED}


@style.in_style
def front_figure(cells: Sequence[Cell]) -> Figure:
    """Draw energy over time of what was compared for one model, the front in colour."""
    compared = sorted((cell for cell in cells if cell.on_front is not None), key=costs_of)
    times_s, energies_j = zip(*(costs_of(cell)[:2] for cell in compared), strict=True)
    (across, x_prefix), (up, y_prefix) = si_scale(times_s), si_scale(energies_j)
    unit = wording.estimate_of(compared[0]).unit
    figure = Figure(figsize=(7, 4))
    figure.subplots_adjust(left=0.1, right=0.95, top=0.86, bottom=0.13)
    axes = figure.add_subplot()
    style.tidy(axes, "Energy over time", f"{y_prefix}J/{unit}", f"time, {x_prefix}s/{unit}")
    xs, ys = [x * across for x in times_s], [y * up for y in energies_j]
    style.fit_axis(axes, "x", xs, has_log=style.is_wide(xs), below=0.08, above=0.2)
    style.fit_axis(axes, "y", ys, has_log=style.is_wide(ys), below=0.12, above=0.12)
    dots = list(zip(compared, xs, ys, strict=True))
    line = [(x, y) for cell, x, y in dots if cell.on_front]
    if compared[0].price is None:  # with prices, the front is a surface
        axes.plot(*zip(*line, strict=True), color=style.BEST, linewidth=1)
    labels = []
    for cell, x, y in dots:
        strong = bool(cell.on_front)
        axes.plot([x], [y], "o", color=_INK[strong], markersize=6)
        text = wording.cell_name(cell, compared)
        labels.append(Label(x=x, y=y, text=text, color=_INK[strong], is_strong=strong, can_go=True))
    write_labels(axes, labels, list(zip(xs, ys, strict=True)))
    return figure
