"""The answer of a search, worked out from its results folder and written into it."""

from collections.abc import Sequence
from dataclasses import replace

from joulelab.analysis.search_conclude import write_search
from joulelab.analysis.search_result import SearchMethod, SearchResult, search_result
from joulelab.core.measurement import Measurement
from joulelab.search.answer import answer
from joulelab.search.course import Course
from joulelab.search.evidence import Evidence
from joulelab.tracking.store import ResultStore
from joulelab_actors.search.history import History, history_of


def conclude_search(
    store: ResultStore, evidence: Evidence, course: Course, method: SearchMethod
) -> SearchResult:
    """Work out what a search found and write answer, report, plots and table.

    Args:
        store: The search's results.
        evidence: What the strategy was told of them.
        course: The same, trial by trial.
        method: How the search went about it.

    Raises:
        MeasurementError: If the baseline was not measured, or nothing ties it to the best.
        TrackingError: If the results cannot be read or the answer not be written.
    """
    measurements = store.read()
    history = history_of(measurements)
    result = search_result(
        measurements,
        evidence,
        steps=course.steps,
        answer=answer(evidence, spent_j=history.energy_j),
        method=method,
    )
    write_search(store, result, _runs(measurements, history, evidence, course))
    return result


def _runs(
    measurements: Sequence[Measurement], history: History, evidence: Evidence, course: Course
) -> dict[str, dict[str, float]]:
    """Return what each measurement's trial shows beside it, by the measurement's id.

    A trial of several phases has one cost, that of all of them together.
    """
    by_trial: dict[tuple[str, int], list[str]] = {}
    for m in measurements:
        by_trial.setdefault((m.trial, m.attempt), []).append(m.measurement_id)
    runs: dict[str, dict[str, float]] = {}
    for trial, outcome in zip(history.trials, history.outcomes, strict=True):
        known = evidence.mean(trial.configuration)
        if outcome.figures is None or known is None:
            continue
        figures = replace(outcome.figures, retention=known.retention, retention_u=known.retention_u)
        numbers = {"cost_ratio": course.cost_ratio(figures), "retention": known.retention}
        shown = {name: value for name, value in numbers.items() if value is not None}
        runs.update(dict.fromkeys(by_trial[trial.name, trial.attempt], shown))
    return runs
