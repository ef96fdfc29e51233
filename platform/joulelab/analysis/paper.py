"""Figures for papers: PDF without heads, one panel each, as wide as a column of text."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.figure_file import save_figure
from joulelab.analysis.knob_plot import draw_panel
from joulelab.analysis.knob_study import KnobPhase, Panel
from joulelab.analysis.plots import phase_panels
from joulelab.analysis.search_front_panel import draw_front
from joulelab.analysis.search_plot import draw_course
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.style import RC
from joulelab.analysis.sweep import PhaseResult

COLUMN_IN, PAGE_IN = 3.5, 7.16
"""Widths of a column and of a page of two columns, IEEE's; ACM's are 5 % narrower."""
_HEIGHT_IN = 2.5


def save_sweep_panels(phase: PhaseResult, stem: Path) -> tuple[Path, ...]:
    """Write every panel of a sweep's phase as ``stem``-NAME.pdf and return their paths."""
    return _saved(phase_panels(phase), stem)


def save_knob_panels(phase: KnobPhase, panels: Sequence[Panel], stem: Path) -> tuple[Path, ...]:
    """Write every panel of a phase of a study of knobs as ``stem``-NAME.pdf, likewise."""

    def drawing(panel: Panel) -> Callable[[Axes], None]:
        return lambda axes: draw_panel(axes, phase, panel)

    return _saved({panel: drawing(panel) for panel in panels}, stem)


def save_search_figures(result: SearchResult, folder: Path) -> tuple[Path, ...]:
    """Write the front and the course of a search as PDF over two columns, likewise."""
    front, course = folder / "search-front.pdf", folder / "search-course.pdf"
    with mpl.rc_context(RC):
        figure = Figure(figsize=(PAGE_IN, 5.6))
        figure.subplots_adjust(left=0.08, right=0.94, top=0.9, bottom=0.08, hspace=0.5)
        draw_front(figure, result, upright=True)
        save_figure(figure, front)
        figure = Figure(figsize=(PAGE_IN, _HEIGHT_IN))
        figure.subplots_adjust(left=0.08, right=0.94, top=0.8, bottom=0.18, wspace=0.16)
        draw_course(figure, result)
        save_figure(figure, course)
    return front, course


def _saved(panels: Mapping[str, Callable[[Axes], None]], stem: Path) -> tuple[Path, ...]:
    paths = []
    for name, draw in panels.items():
        with mpl.rc_context(RC):
            figure = Figure(figsize=(COLUMN_IN, _HEIGHT_IN))
            figure.subplots_adjust(left=0.14, right=0.93, top=0.8, bottom=0.18)
            axes = figure.add_subplot()
            draw(axes)
            axes.set_title(
                axes.get_title(loc="left"), loc="left", fontsize=8, fontweight="bold", pad=16
            )
        paths.append(stem.with_name(f"{stem.name}-{name}.pdf"))
        save_figure(figure, paths[-1])
    return tuple(paths)
