"""What a search found, with everything that tells it: in words, tables, plots and a report."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from joulelab.analysis.compared import Counts, Exclusion, drifts_of
from joulelab.analysis.search_wording import configuration_name, sentence
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Measurement
from joulelab.core.steadiness import Drift
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.objectives import Objective
from joulelab.searching.answer import Answer, answer
from joulelab.searching.base import Outcome
from joulelab.searching.constraints import Constraint, over_cells
from joulelab.searching.course import Course, Step
from joulelab.searching.evidence import Evidence, Kept, Problem
from joulelab.searching.space import Cell, SearchSpace
from joulelab.searching.standing import Compared
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import ChartPoint
from joulelab.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMethod:
    """How a search went about it."""

    algorithm: str
    seed: int
    budget: str  # its bounds in words; "" for none
    most_repeats: int  # measurements of one configuration at most, as long as it may be the best
    stopped_by: str
    # Trials at the end of its budget that were kept for repeats of the best and the knee.
    num_confirming: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow(Counts):
    """One configuration that a search tried."""

    configuration: Configuration
    values: tuple[KnobValue, ...]  # its value on each axis; None is the driver's own
    found: Compared | None  # what it costs; None without figures that compare with the baseline's
    reason: str
    is_capped: bool  # whether the power cap held its clock, as it may a baseline that has figures
    is_feasible: bool  # whether it keeps to the constraints with the confidence asked for
    is_baseline: bool
    is_best: bool
    in_set: bool  # whether it is statistically indistinguishable from the best
    on_front: bool  # whether no other allowed one beats it in energy, time and quality
    is_knee: bool  # whether it is the balanced one of those


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A search from what was asked to what was found."""

    study: str
    problem: Problem
    method: SearchMethod
    answer: Answer
    # Every configuration that was tried: the baseline, then by cost, then those without figures.
    rows: tuple[SearchRow, ...]
    steps: tuple[Step, ...]
    boards: tuple[DeviceIdentity, ...]
    exclusions: tuple[Exclusion, ...]
    # Trend of the baseline on each board; empty for a workload of several phases.
    drifts: tuple[Drift, ...]
    source: str

    @property
    def unit(self) -> str:
        """Unit of work, in the singular."""
        return WORKLOADS[self.problem.space.workload].unit

    @property
    def measured(self) -> tuple[tuple[SearchRow, Compared], ...]:
        """Rows that have figures, with them."""
        return tuple((row, row.found) for row in self.rows if row.found is not None)

    @property
    def sentence(self) -> str:
        """Which configuration to choose, what it saves, and how sure that is."""
        return sentence(self.answer, self.problem, stopped_by=self.method.stopped_by)

    @property
    def has_quality(self) -> bool:
        """Whether the quality of every measured configuration was evaluated."""
        return all(found.figures.retention is not None for _, found in self.measured)


def search_result(
    measurements: Sequence[Measurement],
    evidence: Evidence,
    *,
    steps: Sequence[Step],
    answer: Answer,
    method: SearchMethod,
) -> SearchResult:
    """Put together what a search found in ``measurements``, valid or not."""
    valid = [m for m in measurements if m.valid]
    level, space = answer.standing.level, evidence.problem.space
    has_one_phase = len({m.phase for m in measurements}) == 1
    return SearchResult(
        study=measurements[0].study,
        problem=evidence.problem,
        method=method,
        answer=answer,
        rows=_rows(evidence, answer),
        steps=tuple(steps),
        boards=tuple({m.device.uuid: m.device for m in measurements}.values()),
        exclusions=tuple(
            Exclusion(measurement=m, label=configuration_name(m.configuration, space))
            for m in measurements
            if not m.valid
        ),
        drifts=drifts_of(valid, lambda m: m.configuration.config_hash, level)
        if has_one_phase
        else (),
        source=valid[0].windows[0].source if valid else "",
    )


def _rows(evidence: Evidence, answer: Answer) -> tuple[SearchRow, ...]:
    space, found = evidence.problem.space, answer.compared
    tried = list(dict.fromkeys(outcome.candidate for outcome in evidence.outcomes))
    reasons = {o.candidate: o.reason for o in evidence.outcomes if o.reason is not None}
    invalid = Counter(o.candidate for o in evidence.outcomes if o.figures is None)
    front = {choice.configuration for choice in answer.front}
    held = {o.candidate for o in evidence.outcomes if o.capped and o.figures is not None}
    rows = [
        SearchRow(
            configuration=each,
            values=space.values(each),
            found=found.get(each),
            num_valid=len(evidence.repeats(each)),
            num_invalid=invalid[each],
            reason="" if each in found else reasons.get(each, "not compared: boards not tied"),
            is_capped=each in held or each in answer.capped,
            is_feasible=each in found and evidence.judgement(each).is_feasible,
            is_baseline=each == space.baseline,
            is_best=each == answer.standing.best,
            in_set=each in answer.alike,
            on_front=each in front,
            is_knee=each == answer.knee.configuration,
        )
        for each in tried
    ]
    return tuple(sorted(rows, key=_place))


def _place(row: SearchRow) -> tuple[bool, bool, bool, float]:
    """Order rows: the baseline, then feasible ones by cost, then others, then what has none."""
    if row.found is None or row.found.cost_ratio is None:
        return (not row.is_baseline, row.found is None, True, 0.0)
    return (not row.is_baseline, False, not row.is_feasible, row.found.cost_ratio.value)


def chosen_rows(result: SearchResult, max_rows: int | None) -> list[SearchRow]:
    """Choose the rows to show: the baseline, the best, its equals, the front, the next best."""
    if max_rows is None:
        return list(result.rows)

    def rank(row: SearchRow) -> tuple[bool, bool, bool, bool]:
        named = row.is_baseline or row.is_best or row.is_knee
        return (not named, not row.in_set, row.found is None, not row.on_front)

    kept = {row.configuration for row in sorted(result.rows, key=rank)[:max_rows]}
    return [row for row in result.rows if row.configuration in kept]


def chart_point(step: Step) -> ChartPoint:
    """Return a step of a search as numbers: what is not known is absent, never 0."""
    known = {
        "trial_cost_ratio": step.cost_ratio,
        "best_cost_ratio": step.best_cost_ratio if step.is_feasible else None,
        "search_energy_j": step.spent_j,
        "num_valid": float(step.num_valid),
        "num_capped": float(step.num_capped),
        "num_failed": float(step.num_failed),
    }
    values = tuple((name, value) for name, value in known.items() if value is not None)
    return ChartPoint(step=step.number, values=values)


LOG = "search.json"
ASKED = "asked_search.json"  # a log without trials, of a search that may not have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial:
    """One trial of a search, and the joules that the search had taken by then."""

    outcome: Outcome
    spent_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLog:
    """What a search was asked for, how it went about it, and its trials."""

    workload: str
    axes: tuple[tuple[str, tuple[KnobValue, ...]], ...]
    knobs: tuple[tuple[str, KnobValue], ...]
    goal: Objective  # the objective, under the name that it was first stored by
    constraints: tuple[Constraint, ...]
    confidence: float
    qualities: tuple[tuple[Cell, Kept], ...]
    method: SearchMethod
    trials: tuple[LoggedTrial, ...] = ()
    spent_j: float = 0.0  # joules spent on all trials, those included that are in no log


def asked_log(problem: Problem, method: SearchMethod) -> SearchLog:
    """Return the log of a search without its trials."""
    return SearchLog(
        workload=problem.space.workload,
        axes=tuple(problem.space.axes.items()),
        knobs=tuple(problem.space.knobs.items()),
        goal=problem.objective,
        constraints=problem.constraints,
        confidence=problem.confidence,
        qualities=tuple(problem.qualities.items()),
        method=method,
    )


def log_of(result: SearchResult) -> SearchLog:
    """Return the log of the search that ``result`` came of."""
    return replace(
        asked_log(result.problem, result.method),
        trials=tuple(LoggedTrial(outcome=s.outcome, spent_j=s.spent_j) for s in result.steps),
        spent_j=result.answer.spent_j,
    )


def result_of(log: SearchLog, measurements: Sequence[Measurement]) -> SearchResult:
    """Return what a search found in ``measurements``, valid or not."""
    measurements = [replace(m, configuration=_whole(m.configuration)) for m in measurements]
    problem = Problem(
        space=SearchSpace(
            log.workload,
            dict(log.axes),
            knobs=dict(log.knobs),
            references=over_cells(log.constraints),
        ),
        objective=log.goal,
        constraints=log.constraints,
        confidence=log.confidence,
        qualities=dict(log.qualities),
        gpu=spec_of_boards(measurements[0].device.name) if measurements else None,
    )
    evidence, course = Evidence(problem), Course(problem)
    for each in log.trials:
        outcome = replace(each.outcome, candidate=_whole(each.outcome.candidate))
        evidence.add(outcome)
        course.add(outcome, spent_j=each.spent_j)
    return search_result(
        measurements,
        evidence,
        steps=course.steps,
        answer=answer(evidence, spent_j=log.spent_j),
        method=log.method,
    )


@cache
def _whole(stored: Configuration) -> Configuration:
    """Return a configuration with the settings that its program has got since, at their default."""
    settings = WORKLOADS.of(stored).settings
    return Configuration.of(stored.workload, settings, stored.point)


def _as_now(log: Any) -> Any:
    """Return a log as it is written now.

    Before requests were known a slowdown was over the baseline, and a latency that of a unit.
    """
    if "told" in log:  # the name of its trials until 2026-11
        log["trials"] = log.pop("told")
    for constraint in log["constraints"]:
        constraint.setdefault("against", "baseline")
    for trial in log["trials"]:
        figures = trial["outcome"]["figures"]
        if figures is not None:
            figures.setdefault("latency_s", figures["time_s"])
    return log


def read_log(store: ResultStore, *, name: str = LOG) -> SearchLog | None:
    """Read the log of a search; ``None`` where there is none.

    Raises TrackingError if it is none.
    """
    return store.read_file(name, SearchLog, called="log of a search", as_now=_as_now)
