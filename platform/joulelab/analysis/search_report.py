"""What a search found as one HTML file, in the look of the reports of sweeps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joulelab.analysis.methods import uncertainty_statement
from joulelab.analysis.quantities import quantity
from joulelab.analysis.report import write_page
from joulelab.analysis.search_methods import search_paragraph
from joulelab.analysis.search_plot import (
    can_plot_search,
    course_caption,
    front_caption,
    inline_course_svg,
    inline_front_svg,
)
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_table import chosen_rows, search_legend, search_sheet
from joulelab.analysis.search_wording import (
    configuration_name,
    constraint_words,
    goal_name,
    recommendation,
    remarks,
    significant,
    units_of,
)
from joulelab.analysis.theme import themed
from joulelab.analysis.wording import board_words
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import StudyHeader

_MAX_ROWS = 24
_JOINED = "\N{NO-BREAK SPACE}"


def write_search_report(
    result: SearchResult,
    measurements: Sequence[Measurement],
    path: Path,
    *,
    header: StudyHeader | None = None,
) -> Path:
    """Write the report of a search to ``path`` and return it.

    Args:
        result: What was found.
        measurements: All that the search measured.
        path: The HTML file.
        header: What the study was asked; ``None`` if that was not kept.
    """
    return write_page(
        path,
        study=result.study,
        answer=recommendation(result.answer, result.problem).replace(" %", f"{_JOINED}%"),
        views=[_view(result, measurements, dict(header.settings) if header else {})],
        measurements=measurements,
        boards=result.boards,
        header=header,
    )


def _view(
    result: SearchResult, measurements: Sequence[Measurement], settings: Mapping[str, Any]
) -> dict[str, Any]:
    shown = chosen_rows(result, _MAX_ROWS)
    can_plot = can_plot_search(result)
    return {
        "name": result.problem.space.workload,
        "answer": "Energy against time of what was measured",
        "phase": result,
        "remarks": remarks(result.answer, result.problem, stopped_by=result.method.stopped_by),
        "plot": themed(inline_front_svg(result), "p0-") if can_plot else None,
        "caption": front_caption(result),
        "sheet": search_sheet(result, shown),
        "legend": search_legend(result, num_shown=len(shown)),
        "whole": search_sheet(result, result.rows) if len(shown) < len(result.rows) else None,
        "whole_name": "configurations that were tried",
        "course": themed(inline_course_svg(result), "p1-") if can_plot else None,
        "course_caption": course_caption(result),
        "facts": _facts(result),
        "reasons": Counter(f.reason for e in result.exclusions for f in e.findings),
        "drifting": [drift for drift in result.drifts if drift.exceeds(0.01)],
        "uncertainty": uncertainty_statement(result.answer.standing.level),
        "methods": search_paragraph(result, measurements, settings),
        "device": board_words(result.boards[0]),
    }


def _facts(result: SearchResult) -> list[tuple[str, str]]:
    """List what was asked, what was done, and what it took."""
    problem, method, found, last = result.problem, result.method, result.answer, result.steps[-1]
    limits = "; ".join(constraint_words(each) for each in problem.constraints)
    return [
        ("lowest", f"{goal_name(problem)} per {result.unit}"),
        ("constraints", limits or "none"),
        ("among", f"{problem.space.summary}: {len(problem.space)} configurations"),
        ("baseline", configuration_name(problem.space.baseline, problem.space)),
        ("algorithm", f"{method.algorithm}, seed {method.seed}"),
        ("budget", method.budget or "none"),
        ("ended by", method.stopped_by),
        ("trials", _trials(result)),
        ("energy spent", quantity(found.spent_j, "J", digits=3)),
        ("paid for itself", _payback(result)),
        *_lost(result),
        ("chosen", f"first measured at trial {_found_at(result)} of {last.number}"),
    ]


def _trials(result: SearchResult) -> str:
    last = result.steps[-1]
    num_tried = len(result.rows)
    return f"{last.number} of {num_tried} configurations, {last.num_valid} with figures"


def _payback(result: SearchResult) -> str:
    after = result.answer.pays_after
    if after is None:
        return "it is not certain that energy is saved"
    low, high = significant(after.low), significant(after.high)
    between = "" if low == high else f" ({low} to {high})"
    return f"after {significant(after.value)} {units_of(result.problem)}{between}"


def _lost(result: SearchResult) -> list[tuple[str, str]]:
    found, space = result.answer, result.problem.space
    told = []
    if found.capped:
        names = "; ".join(configuration_name(each, space) for each in found.capped)
        told.append(("held down by the power cap", f"{names}: the same as a lower clock"))
    if found.failed:
        names = "; ".join(configuration_name(each, space) for each in found.failed)
        told.append(("not measured", f"{names}. Were one better, the answer would be another"))
    return told


def _found_at(result: SearchResult) -> int:
    best = result.answer.standing.best
    return next(step.number for step in result.steps if step.outcome.candidate == best)
