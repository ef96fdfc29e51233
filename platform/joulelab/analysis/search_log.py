"""A search as it was asked and told, in one file, from which all that it found follows again."""

from collections.abc import Sequence
from dataclasses import dataclass

from joulelab.analysis.search_result import SearchMethod, SearchResult, search_result
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.errors import TrackingError
from joulelab.search.answer import answer
from joulelab.search.base import Outcome
from joulelab.search.constraints import Constraint
from joulelab.search.course import Course
from joulelab.search.evidence import Evidence, Problem
from joulelab.search.goal import Goal
from joulelab.search.kept import Kept
from joulelab.search.space import Cell, SearchSpace
from joulelab.tracking.codec import from_json, to_json
from joulelab.tracking.durable import write_whole
from joulelab.tracking.store import ResultStore

LOG = "search.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One trial of a search.

    Attributes:
        outcome: What came of it.
        spent_j: Joules that the search had taken by then.
    """

    outcome: Outcome
    spent_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLog:
    """What a search was asked for, how it went about it, and what it was told.

    Attributes:
        workload: Registry name of the workload.
        axes: Values of each axis of the space.
        knobs: Knobs of the workload that stay as they are.
        goal: What was minimised.
        constraints: What had to be kept to.
        confidence: Probability of keeping to them from which on a choice counts as feasible.
        qualities: What the outputs of each cell keep, as known beforehand.
        method: How it went about it.
        told: Its trials, in the order in which they ended.
        spent_j: Joules spent on all trials, those included that were never told.
    """

    workload: str
    axes: tuple[tuple[str, tuple[KnobValue, ...]], ...]
    knobs: tuple[tuple[str, KnobValue], ...]
    goal: Goal
    constraints: tuple[Constraint, ...]
    confidence: float
    qualities: tuple[tuple[Cell, Kept], ...]
    method: SearchMethod
    told: tuple[Told, ...]
    spent_j: float


def log_of(result: SearchResult) -> SearchLog:
    """Return the log of the search that ``result`` came of."""
    problem = result.problem
    return SearchLog(
        workload=problem.space.workload,
        axes=tuple(problem.space.axes.items()),
        knobs=tuple(problem.space.knobs.items()),
        goal=problem.goal,
        constraints=problem.constraints,
        confidence=problem.confidence,
        qualities=tuple(problem.qualities.items()),
        method=result.method,
        told=tuple(Told(outcome=each.outcome, spent_j=each.spent_j) for each in result.steps),
        spent_j=result.answer.spent_j,
    )


def result_of(log: SearchLog, measurements: Sequence[Measurement]) -> SearchResult:
    """Return what a search found.

    Args:
        log: What it was asked and told.
        measurements: All that it measured, valid or not.
    """
    problem = Problem(
        space=SearchSpace(log.workload, dict(log.axes), knobs=dict(log.knobs)),
        goal=log.goal,
        constraints=log.constraints,
        confidence=log.confidence,
        qualities=dict(log.qualities),
    )
    evidence, course = Evidence(problem), Course(problem)
    for each in log.told:
        evidence.add(each.outcome)
        course.add(each.outcome, spent_j=each.spent_j)
    return search_result(
        measurements,
        evidence,
        steps=course.steps,
        answer=answer(evidence, spent_j=log.spent_j),
        method=log.method,
    )


def write_log(store: ResultStore, log: SearchLog) -> None:
    """Write ``log`` into a search's results folder, over an earlier one."""
    write_whole(store.folder / LOG, f"{to_json(log)}\n".encode())


def read_log(store: ResultStore) -> SearchLog:
    """Read the log of a search that has ended from its results folder.

    Raises:
        TrackingError: If there is none, or it is none.
    """
    path = store.folder / LOG
    try:
        return from_json(SearchLog, path.read_bytes())
    except FileNotFoundError as error:
        raise TrackingError(
            f"{store.folder} must hold the log of a search that has ended, {LOG}, but does not: "
            "it is no search, or has not ended (go on with it with --study), or is of a version "
            "that wrote none."
        ) from error
    except (ValueError, TrackingError) as error:
        raise TrackingError(f"{path} is no log of a search: {error}") from error
