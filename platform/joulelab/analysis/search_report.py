"""What a search found as a report: page, plots, table and answer."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from joulelab.analysis import search_plot
from joulelab.analysis.course_plot import courses_figure
from joulelab.analysis.methods import search_paragraph
from joulelab.analysis.quantities import brief
from joulelab.analysis.search_result import SearchResult
from joulelab.analysis.search_table import chart_point, search_frame, search_listing
from joulelab.analysis.search_wording import (
    configuration_name,
    payback,
    recommendation,
    remarks,
)
from joulelab.analysis.study_report import Section, StudyReport
from joulelab.analysis.table import Columns, numbers_at
from joulelab.analysis.wording import constraint_words
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.measurement import Measurement
from joulelab.searching.space import SearchSpace
from joulelab.tracking.study import Answer, RunMetrics, StudyHeader

TABLE = "search.csv"
_JOINED = "\N{NO-BREAK SPACE}"
_NO_PAYBACK = "it is not certain that energy is saved"
_NONE_KEEPS = "nothing measured keeps to the constraints"


def search_report(
    result: SearchResult,
    measurements: Sequence[Measurement],
    *,
    header: StudyHeader | None = None,
    traces: Path | None = None,
    runs: Sequence[RunMetrics] = (),
) -> StudyReport:
    """Put a search into words, tables and plots; ``runs`` are of single measurements."""
    settings = dict(header.settings) if header else {}
    drawn = search_plot.FIGURES if search_plot.can_plot_search(result) else {}
    return StudyReport(
        title=recommendation(result.answer, result.problem).replace(" %", f"{_JOINED}%"),
        answer=Answer(
            note=result.sentence,
            summary=tuple(_summary(result)),
            chart=tuple(map(chart_point, result.steps)),
            runs=tuple(runs),
        ),
        table=TABLE,
        frame=search_frame(result),
        figures={stem: partial(draw, result) for stem, draw in drawn.items()},
        panels={stem: partial(search_plot.paper_figure, result, stem) for stem in drawn},
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
    can_plot = search_plot.can_plot_search(result)
    return Section(
        name=result.problem.space.workload,
        answer="Energy against time of what was measured",
        found=result,
        remarks=remarks(result.answer, result.problem, stopped_by=result.method.stopped_by),
        plot=partial(search_plot.front_figure, result, with_head=False) if can_plot else None,
        caption=search_plot.front_caption(result),
        listing=search_listing(result),
        course=partial(search_plot.course_figure, result, with_head=False) if can_plot else None,
        course_caption=search_plot.course_caption(result),
        courses=partial(courses_figure, _chosen_trials(result, measurements), traces),
        facts=_facts(result),
        methods=search_paragraph(result, measurements, settings),
        level=result.answer.standing.level,
    )


def _chosen_trials(
    result: SearchResult, measurements: Sequence[Measurement]
) -> list[tuple[str, Measurement]]:
    wanted = {result.problem.space.baseline: "baseline", result.answer.standing.best: "chosen"}
    has_phases = len({m.phase for m in measurements}) > 1
    found: dict[str, Measurement] = {}
    for m in measurements:
        role = wanted.get(m.configuration)
        if m.valid and role is not None:
            found.setdefault(f"{role}, {m.phase}" if has_phases else role, m)
    return sorted(found.items())


def _facts(result: SearchResult) -> list[tuple[str, str]]:
    problem, method, found, last = result.problem, result.method, result.answer, result.steps[-1]
    limits = "; ".join(constraint_words(each) for each in problem.constraints)
    after, best, num_tried = payback(found, problem), found.standing.best, len(result.rows)
    never = _NONE_KEEPS if found.missed else _NO_PAYBACK
    at = next(step.number for step in result.steps if step.outcome.candidate == best)
    return [
        ("lowest", f"{problem.objective.label} per {result.unit}"),
        ("constraints", limits or "none"),
        ("among", f"{problem.space.summary}: {len(problem.space)} configurations"),
        ("baseline", configuration_name(problem.space.baseline, problem.space)),
        ("algorithm", f"{method.algorithm}, seed {method.seed}"),
        ("budget", method.budget or "none"),
        ("ended by", method.stopped_by),
        ("trials", f"{last.number} of {num_tried} configurations, {last.num_valid} with figures"),
        ("energy spent", brief(found.spent_j, "J")),
        ("pays for itself", f"after {after}" if after else never),
        *_lost(result),
        ("chosen", f"first measured at trial {at} of {last.number}"),
    ]


def _lost(result: SearchResult) -> list[tuple[str, str]]:
    found, space = result.answer, result.problem.space
    lost = [
        ("power-capped", found.capped, ": the same as a lower clock"),
        ("not measured", found.failed, ". Were one better, the answer would be another"),
    ]
    return [
        (name, f"{'; '.join(configuration_name(each, space) for each in those)}{why}")
        for name, those, why in lost
        if those
    ]


def _summary(result: SearchResult) -> list[tuple[str, float]]:
    found, space = result.answer, result.problem.space
    best, fastest = (_axis_numbers(space, c.configuration) for c in (found.best, found.fastest))
    counts = {
        "num_in_set": len(found.standing.members),
        "num_unmeasured": len(found.unmeasured),
        "num_trials": len(result.steps),
    }
    return [
        *((f"best.{name}", value) for name, value in best),
        *((f"fastest.{name}", value) for name, value in fastest),
        *numbers_at(found, _ANSWER),
        *((name, float(num)) for name, num in counts.items()),
        *numbers_at(found, {"pays_after_units": "pays_after.value"}),
    ]


_ANSWER: Columns = {
    "best.energy_per_unit_j": "best.figures.energy_j",
    "best.time_per_unit_s": "best.figures.time_s",
    **{f"best.{name}": f"best.figures.{name}" for name in ("retention", "memory_b")},
    **{name: f"{name}.value" for name in ("energy_ratio", "time_ratio", "cost_ratio")},
}


def _axis_numbers(space: SearchSpace, configuration: Configuration) -> list[tuple[str, float]]:
    values = zip(space.axes, space.values(configuration), strict=True)
    return [
        (name, float(value))
        for name, value in values
        if value is not None and not isinstance(value, str | bool)
    ]
