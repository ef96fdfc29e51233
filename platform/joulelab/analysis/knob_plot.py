"""A study of knobs on one page: a row of panels for each phase.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill, wrap

import matplotlib as mpl
from matplotlib.figure import Figure

from joulelab.analysis.figure_file import save_figure
from joulelab.analysis.knob_findings import losses
from joulelab.analysis.knob_panels import draw_panel
from joulelab.analysis.knob_study import KnobPhase, Panel
from joulelab.analysis.panels import COVERAGE
from joulelab.analysis.style import MUTED, RC
from joulelab.analysis.theme import svg_of
from joulelab.analysis.wording import board_words

_WIDTH_IN, _ROW_IN = 11.0, 3.4


def knob_figure(phases: Sequence[KnobPhase], panels: Sequence[Panel], answer: str = "") -> Figure:
    """Draw phases that have figures.

    Args:
        phases: The phases, one row each.
        panels: The columns.
        answer: What stands above the panels; ``""`` for nothing.
    """
    lines = [part for line in answer.splitlines() for part in wrap(line, 104)]
    about = fill(caption(*phases), 150)
    head_in = 0.6 + 0.22 * len(lines) + 0.16 * about.count("\n") if lines else 0.0
    height_in = head_in + _ROW_IN * len(phases)
    with mpl.rc_context(RC):
        figure = Figure(figsize=(_WIDTH_IN, height_in))
        grid = figure.subplots(len(phases), len(panels), squeeze=False)
        figure.subplots_adjust(
            left=0.06,
            right=0.985,
            top=1 - (head_in + 0.5) / height_in,
            bottom=0.5 / height_in,
            wspace=0.16,
            hspace=0.48,
        )
        for row, phase in zip(grid, phases, strict=True):
            for axes, panel in zip(row, panels, strict=True):
                draw_panel(axes, phase, panel)
        if lines:
            top = 1 - 0.15 / height_in
            said = "\n".join(lines)
            figure.text(0.06, top, said, fontsize=11, fontweight="bold", va="top", linespacing=1.3)
            below = top - (0.2 * len(lines) + 0.1) / height_in
            figure.text(0.06, below, about, color=MUTED, fontsize=9, va="top")
    return figure


def save_knob_plot(
    phases: Sequence[KnobPhase], panels: Sequence[Panel], answer: str, stem: Path
) -> tuple[Path, Path]:
    """Write the plot as ``stem``.png and ``stem``.svg and return their paths."""
    figure = knob_figure(phases, panels, answer)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    save_figure(figure, png, svg)
    return png, svg


def inline_knob_svg(phase: KnobPhase, panels: Sequence[Panel]) -> str:
    """Return the plot of one phase as an SVG element whose text is text."""
    return svg_of(knob_figure([phase], panels))


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
