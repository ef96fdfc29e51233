"""A search on two figures: what can be traded for what, and how the best was found.

Drawn on figures of their own, without pyplot and its global state, so that any thread may draw.
"""

from collections.abc import Callable
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
from matplotlib.figure import Figure

from joulelab.analysis.figure_file import save_figure
from joulelab.analysis.panels import COVERAGE
from joulelab.analysis.search_course_panels import draw_course
from joulelab.analysis.search_front_panel import draw_front
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_wording import goal_name, recommendation
from joulelab.analysis.style import MUTED, RC
from joulelab.analysis.theme import svg_of
from joulelab.analysis.wording import board_words

FRONT, COURSE = "search-front", "search-course"

_WIDTH_IN = 11.0
_LEFT_IN, _RIGHT_IN = 0.72, 0.25
_KEY_IN = 0.2
"""Room that the key of the qualities takes besides."""


def front_figure(result: SearchResult, *, with_head: bool = True) -> Figure:
    """Draw energy against time of everything that was measured.

    Args:
        result: What was found; at least two configurations have figures.
        with_head: Whether the recommendation stands above.
    """
    return _figure(result, front_caption(result), 5.2, with_head, draw_front)


def course_figure(result: SearchResult, *, with_head: bool = True) -> Figure:
    """Draw the cost that each trial found, and the best so far, over trials and over energy."""
    return _figure(result, course_caption(result), 3.7, with_head, _draw_course)


def can_plot_search(result: SearchResult) -> bool:
    """Whether there are at least two configurations to draw."""
    return len(result.measured) > 1


def save_search_plots(result: SearchResult, folder: Path) -> tuple[Path, ...]:
    """Write both figures into ``folder`` as PNG and SVG and return their paths."""
    written = []
    for name, draw in ((FRONT, front_figure), (COURSE, course_figure)):
        figure = draw(result)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        save_figure(figure, png, svg)
        written += [png, svg]
    return tuple(written)


def inline_front_svg(result: SearchResult) -> str:
    """Return the trade-off as an SVG element whose text is text, for a page with a head."""
    return svg_of(front_figure(result, with_head=False))


def inline_course_svg(result: SearchResult) -> str:
    """Return the course as an SVG element whose text is text, for a page with a head."""
    return svg_of(course_figure(result, with_head=False))


def front_caption(result: SearchResult) -> str:
    """Say what the marks of the trade-off mean."""
    level = result.answer.standing.level
    limits = " Hollow: not sure to keep to the constraints." if _has_doubts(result) else ""
    line = "Colour: share of the reference's quality that is kept." if result.has_quality else ""
    return (
        f"Energy against time per {result.unit}. Orange: chosen. Green: cannot be told apart from "
        f"it ({level:.0%}). The thick line joins the Pareto front{_by_quality(result)}. Bars: "
        f"expanded uncertainty, k={COVERAGE}.{limits} {line}"
    ).rstrip()


def course_caption(result: SearchResult) -> str:
    """Say what the marks of the course mean."""
    limits = " Hollow: not sure to keep to the constraints." if _has_doubts(result) else ""
    lost = result.steps[-1].num_valid < len(result.steps)
    ticks = " Ticks below: trials without figures." if lost else ""
    return (
        f"Each dot is a trial: its {goal_name(result.problem)} against the baseline's. The line is "
        f"the best so far. Triangles, if any, lie beyond the axis.{limits}{ticks}"
    )


def _by_quality(result: SearchResult) -> str:
    return ", for each quality apart" if result.has_quality else ""


def _has_doubts(result: SearchResult) -> bool:
    return any(not row.is_feasible for row, _ in result.measured)


def _figure(
    result: SearchResult,
    about: str,
    panel_in: float,
    with_head: bool,
    draw: Callable[[Figure, SearchResult], None],
) -> Figure:
    said = wrap(recommendation(result.answer, result.problem), 96) if with_head else []
    told = wrap(f"{_subject(result)} {about}", 150) if with_head else []
    head_in = 0.35 + 0.22 * len(said) + 0.16 * len(told) if with_head else 0.0
    height_in = head_in + panel_in
    with mpl.rc_context(RC):
        figure = Figure(figsize=(_WIDTH_IN, height_in))
        figure.subplots_adjust(
            left=_LEFT_IN / _WIDTH_IN,
            right=1 - (_RIGHT_IN + _KEY_IN * result.has_quality) / _WIDTH_IN,
            top=1 - (head_in + 0.5) / height_in,
            bottom=0.5 / height_in,
            wspace=0.12,
        )
        draw(figure, result)
        left, top = _LEFT_IN / _WIDTH_IN, 1 - 0.15 / height_in
        figure.text(
            left, top, "\n".join(said), fontsize=12, fontweight="bold", va="top", linespacing=1.3
        )
        below = top - (0.23 * len(said) + 0.06) / height_in
        figure.text(
            left, below, "\n".join(told), color=MUTED, fontsize=9, va="top", linespacing=1.3
        )
    return figure


def _subject(result: SearchResult) -> str:
    boards = f"{len(result.boards)} board{'s' if len(result.boards) > 1 else ''}"
    num = result.steps[-1].num_valid
    return (
        f"{result.problem.space.workload} on {board_words(result.boards[0])}, {boards}, "
        f"{num} valid trials."
    )


def _draw_course(figure: Figure, result: SearchResult) -> None:
    over_trials, over_energy = figure.subplots(1, 2, sharey=True)
    draw_course(over_trials, over_energy, result)
