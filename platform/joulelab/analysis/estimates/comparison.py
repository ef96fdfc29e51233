"""Estimates as bars side by side: energy by component, time by what sets it."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.estimates.answer import cell_name, last_phase
from joulelab.analysis.estimates.bars import component_shares
from joulelab.analysis.estimates.palette import BOUND_INKS, COMPONENT_INKS
from joulelab.analysis.estimates.wording import phase_bound_shares
from joulelab.analysis.quantities import quantity, si_scale
from joulelab.analysis.style import INK, MUTED, RC, tidy
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Bound

MAX_BARS = 40

T = TypeVar("T")


def comparable(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that can be drawn beside each other, at most :data:`MAX_BARS`."""
    answered = [cell for cell in cells if cell.estimate is not None]
    units = {cell.estimate.unit for cell in answered if cell.estimate is not None}
    return answered[:MAX_BARS] if len(answered) > 1 and len(units) == 1 else []


def comparison_figure(cells: Sequence[Cell]) -> Figure:
    """Draw energy and time per unit of the last phase's work of :func:`comparable` cells."""
    phases = [last_phase(cell) for cell in cells]
    unit = cells[0].estimate.unit if cells[0].estimate else ""
    names = [cell_name(cell, cells) for cell in cells]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(11, 1.3 + 0.3 * len(cells)))
        left, right = figure.subplots(1, 2, sharey=True)
        high = 0.6 / figure.get_figheight()
        room = min(0.3, 0.03 + 0.0068 * max(map(len, names)))
        figure.subplots_adjust(left=room, right=0.97, top=1 - 1.3 * high, bottom=high, wspace=0.08)
        energies = [(p.energy.total_j / p.work, component_shares(p.energy)) for p in phases]
        times = [(p.latency_s / p.work, _by_name(phase_bound_shares(p))) for p in phases]
        _stack(left, "Energy", f"J/{unit}", energies, COMPONENT_INKS)
        _stack(right, "Time", f"s/{unit}", times, _by_name(BOUND_INKS))
        left.set_yticks(range(len(cells)), names, color=INK)
        left.set_ylim(len(cells) - 0.5, -0.5)
    return figure


def _by_name(values: Mapping[Bound, T]) -> Mapping[str, T]:
    return {str(bound): value for bound, value in values.items()}


def _stack(
    axes: Axes, title: str, unit: str, bars: Sequence[tuple[float, Mapping[str, float]]],
    inks: Mapping[str, str],
) -> None:  # fmt: skip
    factor, prefix = si_scale([max(total for total, _ in bars)])
    tidy(axes, title, "", f"{prefix}{unit}")
    rows, ends = range(len(bars)), [0.0] * len(bars)
    for name, ink in inks.items():
        values = [total * shares.get(name, 0.0) * factor for total, shares in bars]
        if any(values):
            axes.barh(rows, values, left=ends, color=ink, height=0.7, label=name)
        ends = [a + b for a, b in zip(ends, values, strict=True)]
    for row, (total, _) in enumerate(bars):
        axes.annotate(
            quantity(total, unit.partition("/")[0], digits=3), (ends[row], row), xytext=(4, 0),
            textcoords="offset points", va="center", color=MUTED, fontsize=8,
        )  # fmt: skip
    axes.set_xlim(0, 1.2 * max(ends))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, fontsize=8,
                handlelength=1.0, handletextpad=0.5, columnspacing=1.0)  # fmt: skip
