"""Boards of a fleet beside each other, in everything that they are compared in."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.fleet import Aspect, Fleet, short
from joulelab.analysis.style import BEST, CURVE, GRID, MUTED, in_style, save_figure, tidy
from joulelab.analysis.wording import boards_counted

_WIDE, _HIGH, _ROW = 2.4, 1.3, 0.24
"""Inches of a panel, of what is above and below its rows, and of a row."""


@in_style
def save_fleet_plot(fleet: Fleet, path: Path) -> Path:
    """Draw a panel for each aspect, a row for each board, into ``path``; returns it."""
    rows = {board.uuid: place for place, board in enumerate(reversed(fleet.boards))}
    size = (1.6 + _WIDE * len(fleet.aspects), _HIGH + _ROW * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(fleet.aspects), sharey=True, squeeze=False)[0]
    for axes, aspect in zip(panels, fleet.aspects, strict=True):
        _draw(axes, aspect, rows)
    panels[0].set_yticks(list(rows.values()), [_label(uuid, fleet) for uuid in rows])
    head = f"{boards_counted(fleet.boards)}: 95 % intervals; grey, how much boards differ (sd)"
    figure.suptitle(head, x=0.01, ha="left", fontsize=9, color=MUTED)
    save_figure(figure, path)
    return path


def _draw(axes: Axes, aspect: Aspect, rows: dict[str, int]) -> None:
    sd = 100 * aspect.spread.value
    tidy(axes, aspect.name, "% of the mean", "")
    axes.axvspan(-sd, sd, color=GRID, linewidth=0)
    axes.axvline(0.0, color=MUTED, linewidth=0.8)
    for each in aspect.boards:
        value, low, high = (
            100 * (r - 1) for r in (each.ratio.value, each.ratio.low, each.ratio.high)
        )
        axes.errorbar(
            value, rows[each.uuid], xerr=[[value - low], [high - value]], fmt="o", markersize=4,
            color=BEST if each.is_outlier else CURVE, elinewidth=0.9,
        )  # fmt: skip


def _label(uuid: str, fleet: Fleet) -> str:
    host = f", {fleet.hosts[uuid]}" if len(set(fleet.hosts.values())) > 1 else ""
    return short(uuid) + host
