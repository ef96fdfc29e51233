"""A phase of a sweep on one page: energy, time and objective over the clock, and the trade-off.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from pathlib import Path
from textwrap import fill

import matplotlib as mpl
from matplotlib.figure import Figure

from joulelab.analysis.figure_file import save_figure
from joulelab.analysis.panels import COVERAGE, Quantity, over_clock, trade_off
from joulelab.analysis.style import MUTED, RC
from joulelab.analysis.sweep import PhaseResult
from joulelab.analysis.theme import svg_of
from joulelab.analysis.wording import OBJECTIVE_NAMES, device_words, sentence

_PRODUCTS: dict[str, tuple[str, Quantity]] = {
    "edp": ("J s", lambda f: (f.edp_js, f.edp_u_js)),
    "ed2p": ("J s\N{SUPERSCRIPT TWO}", lambda f: (f.ed2p_js2, f.ed2p_u_js2)),
}


def can_plot(phase: PhaseResult) -> bool:
    """Whether there are at least two points to draw."""
    return sum(row.clock_mhz is not None for row, _ in phase.measured) > 1


def phase_figure(phase: PhaseResult, *, with_head: bool = True) -> Figure:
    """Draw a phase that :func:`can_plot`.

    Args:
        phase: What was found.
        with_head: Whether the recommendation stands above the panels.
    """
    product = phase.objective if phase.objective in _PRODUCTS else "edp"
    unit, quantity = _PRODUCTS[product]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(11, 7.6 if with_head else 6.6))
        grid = figure.subplots(2, 2)
        figure.subplots_adjust(
            left=0.06,
            right=0.98,
            top=0.79 if with_head else 0.92,
            bottom=0.07 if with_head else 0.08,
            wspace=0.15,
            hspace=0.52,
        )
        over_clock(
            grid[0, 0],
            phase,
            title="Energy",
            unit=f"J/{phase.unit}",
            quantity=lambda f: (f.energy_per_unit_j, f.energy_per_unit_u_j),
        )
        over_clock(
            grid[0, 1],
            phase,
            title="Time",
            unit=f"s/{phase.unit}",
            quantity=lambda f: (f.time_per_unit_s, f.time_per_unit_u_s),
        )
        over_clock(grid[1, 0], phase, title=OBJECTIVE_NAMES[product], unit=unit, quantity=quantity)
        trade_off(grid[1, 1], phase)
        if with_head:
            _write_head(figure, phase)
    return figure


def save_plot(phase: PhaseResult, stem: Path) -> tuple[Path, Path]:
    """Write the plot of ``phase`` as ``stem``.png and ``stem``.svg and return their paths."""
    figure = phase_figure(phase)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    save_figure(figure, png, svg)
    return png, svg


def inline_svg(phase: PhaseResult) -> str:
    """Return the plot as an SVG element whose text is text, for a page with its own head."""
    return svg_of(phase_figure(phase, with_head=False))


def _write_head(figure: Figure, phase: PhaseResult) -> None:
    boards = f"{len(phase.boards)} board{'s' if len(phase.boards) > 1 else ''}"
    num = sum(row.num_valid for row in phase.rows)
    about = (
        f"{phase.title} on {device_words(phase)}, {boards}, {num} valid measurements. "
        f"Green: cannot be told apart from the best ({phase.level:.0%}). "
        f"Bars: expanded uncertainty, k={COVERAGE}."
    )
    said = fill(sentence(phase), 92)
    figure.text(0.06, 0.97, said, fontsize=13, fontweight="bold", va="top", linespacing=1.3)
    figure.text(0.06, 0.912 - 0.032 * said.count("\n"), about, color=MUTED, fontsize=9)
