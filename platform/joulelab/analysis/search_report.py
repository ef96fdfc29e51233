"""What a search found as one HTML file, in the look of the reports of sweeps."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from joulelab.analysis.course_plot import courses_plot
from joulelab.analysis.figure_file import themed_svg
from joulelab.analysis.methods import search_paragraph
from joulelab.analysis.quantities import quantity
from joulelab.analysis.report import MAX_ROWS, Section, write_page
from joulelab.analysis.search_plot import (
    can_plot_search,
    course_caption,
    course_figure,
    front_caption,
    front_figure,
)
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_table import chosen_rows, search_legend, search_sheet
from joulelab.analysis.search_wording import (
    configuration_name,
    constraint_words,
    objective_name,
    recommendation,
    remarks,
    significant,
    units_of,
)
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.tracking.study import StudyHeader

_JOINED = "\N{NO-BREAK SPACE}"


def write_search_report(
    result: SearchResult,
    measurements: Sequence[Measurement],
    path: Path,
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
) -> Path:
    """Write the report of a search to ``path`` and return it."""
    settings = dict(header.settings) if header else {}
    return write_page(
        path,
        study=result.study,
        answer=recommendation(result.answer, result.problem).replace(" %", f"{_JOINED}%"),
        sections=[_section(result, measurements, settings, traces)],
        measurements=measurements,
        header=header,
    )


def _section(
    result: SearchResult,
    measurements: Sequence[Measurement],
    settings: Mapping[str, KnobValue],
    traces: Path | None,
) -> Section:
    shown = chosen_rows(result, MAX_ROWS)
    can_plot = can_plot_search(result)
    return Section(
        name=result.problem.space.workload,
        answer="Energy against time of what was measured",
        found=result,
        remarks=remarks(result.answer, result.problem, stopped_by=result.method.stopped_by),
        plot=themed_svg(front_figure(result, with_head=False), "p0-") if can_plot else None,
        caption=front_caption(result),
        sheet=search_sheet(result, shown),
        legend=search_legend(result, num_shown=len(shown)),
        whole=search_sheet(result, result.rows) if len(shown) < len(result.rows) else None,
        whole_name="configurations that were tried",
        course=themed_svg(course_figure(result, with_head=False), "p1-") if can_plot else None,
        course_caption=course_caption(result),
        courses=courses_plot(_chosen_trials(result, measurements), traces, "t0-"),
        facts=_facts(result),
        methods=search_paragraph(result, measurements, settings),
        level=result.answer.standing.level,
    )


def _chosen_trials(
    result: SearchResult, measurements: Sequence[Measurement]
) -> list[tuple[str, Measurement]]:
    """Name a trial of the baseline and one of the best, phase by phase."""
    wanted = {result.problem.space.baseline: "baseline", result.answer.standing.best: "chosen"}
    has_phases = len({m.phase for m in measurements}) > 1
    found: dict[str, Measurement] = {}
    for m in measurements:
        role = wanted.get(m.configuration)
        if m.valid and role is not None:
            found.setdefault(f"{role}, {m.phase}" if has_phases else role, m)
    return sorted(found.items())


def _facts(result: SearchResult) -> list[tuple[str, str]]:
    """List what was asked, what was done, and what it took."""
    problem, method, found, last = result.problem, result.method, result.answer, result.steps[-1]
    limits = "; ".join(constraint_words(each) for each in problem.constraints)
    return [
        ("lowest", f"{objective_name(problem)} per {result.unit}"),
        ("constraints", limits or "none"),
        ("among", f"{problem.space.summary}: {len(problem.space)} configurations"),
        ("baseline", configuration_name(problem.space.baseline, problem.space)),
        ("algorithm", f"{method.algorithm}, seed {method.seed}"),
        ("budget", method.budget or "none"),
        ("ended by", method.stopped_by),
        ("trials", _trials(result)),
        ("energy spent", quantity(found.spent_j, "J", digits=3)),
        ("pays for itself", _payback(result)),
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
    lost = []
    if found.capped:
        names = "; ".join(configuration_name(each, space) for each in found.capped)
        lost.append(("power-capped", f"{names}: the same as a lower clock"))
    if found.failed:
        names = "; ".join(configuration_name(each, space) for each in found.failed)
        lost.append(("not measured", f"{names}. Were one better, the answer would be another"))
    return lost


def _found_at(result: SearchResult) -> int:
    best = result.answer.standing.best
    return next(step.number for step in result.steps if step.outcome.candidate == best)
