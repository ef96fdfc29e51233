"""Estimates as one HTML page that needs nothing else: to read, print and keep."""

from collections.abc import Sequence
from typing import Any

from joulelab.analysis.estimates.kernels import count_words, event_lines, kappa_words, main_memory_b
from joulelab.analysis.estimates.overview import PAGE_FIGURES, answers, overview_table
from joulelab.analysis.estimates.plots import (
    comparable,
    comparison_figure,
    stack_figure,
    timeline_figure,
)
from joulelab.analysis.estimates.roofline import dots, roofline_figure
from joulelab.analysis.estimates.wording import (
    bound_words,
    change_words,
    device_words,
    headline,
    memory_words,
    phase_facts,
    setting_words,
    trust_sentences,
)
from joulelab.analysis.figure_file import themed_svg
from joulelab.analysis.page import render
from joulelab.estimator.estimate import Estimate, PhaseEstimate
from joulelab.estimator.question import Cell
from joulelab.provenance import git_sha, joulelab_version

MAX_SECTIONS = 8
MAX_GROUPS = 40


def page(cells: Sequence[Cell]) -> str:
    """Return the page of ``cells``; the first :data:`MAX_SECTIONS` of them in full."""
    answered = [(cell, cell.estimate) for cell in cells if cell.estimate is not None]
    together = comparable(cells)
    title = ", ".join(dict.fromkeys(cell.model for cell in cells))
    return render(
        "estimates/page.html.j2",
        title=f"{title}: estimate",
        answers=answers(cells) or [headline(cell) for cell in cells[:1]],
        overview=overview_table(cells, figures=PAGE_FIGURES),
        comparison=themed_svg(comparison_figure(together), "c-") if together else None,
        refused=[headline(cell) for cell in cells if cell.estimate is None],
        sections=[
            _section(cell, estimate, f"s{i}-")
            for i, (cell, estimate) in enumerate(answered[:MAX_SECTIONS])
        ],
        num_more=max(0, len(answered) - MAX_SECTIONS),
        max_groups=MAX_GROUPS,
        sources={cell.processor.key: cell.processor for cell in cells},
        origin=f"joulelab {joulelab_version()}, commit {git_sha() or 'unknown'}",
        bound_words=bound_words,
        count_words=count_words,
    )


def _section(cell: Cell, estimate: Estimate, prefix: str) -> dict[str, Any]:
    return {
        "name": f"{cell.model} on {device_words(cell)}, {setting_words(cell)}",
        "headline": headline(cell),
        "phases": [_phase(cell, phase, f"{prefix}{i}-") for i, phase in enumerate(estimate.phases)],
        "memory": themed_svg(timeline_figure(estimate), f"{prefix}m-"),
        "memory_words": [f"{p.phase}: {memory_words(p.memory)}." for p in estimate.phases],
        "fits": estimate.fits,
        "opportunities": [(one, *change_words(one)) for one in cell.opportunities],
        "trust": trust_sentences(estimate),
    }


def _phase(cell: Cell, phase: PhaseEstimate, prefix: str) -> dict[str, Any]:
    ordered = sorted(phase.groups, key=lambda group: -group.energy.total_j)
    roofline = roofline_figure(phase, cell.processor) if dots(phase) else None
    return {
        "phase": phase,
        "facts": {} if cell.estimate is None else phase_facts(phase, cell.estimate),
        "roofline": roofline and themed_svg(roofline, f"{prefix}r-"),
        "stack": themed_svg(stack_figure(phase), f"{prefix}e-") if phase.groups else None,
        "groups": [(group, main_memory_b(group)) for group in ordered[:MAX_GROUPS]],
        "events": event_lines(phase.events),
        "kappa": kappa_words(phase.events),
    }
