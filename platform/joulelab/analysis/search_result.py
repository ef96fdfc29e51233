"""What a search found, with everything that tells it: in words, tables, plots and a report."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from joulelab.analysis.compared import drifts_of
from joulelab.analysis.sweep import Exclusion
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.device import DeviceIdentity
from joulelab.core.drift import Drift
from joulelab.core.measurement import Measurement
from joulelab.search.answer import Answer
from joulelab.search.compare import Compared
from joulelab.search.course import Step
from joulelab.search.evidence import Evidence, Problem
from joulelab.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMethod:
    """How a search went about it.

    Attributes:
        algorithm: What chose new configurations.
        seed: Its seed.
        budget: Its bounds in words; ``""`` for none.
        most_repeats: Measurements of one configuration at most, as long as it may be the best.
        stopped_by: What ended it.
        num_confirming: Trials at the end of its budget that were kept for repeats of the best
            and the knee.
    """

    algorithm: str
    seed: int
    budget: str
    most_repeats: int
    stopped_by: str
    num_confirming: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow:
    """One configuration that a search tried.

    Attributes:
        configuration: The configuration.
        values: Its value on each axis; ``None`` is the driver's own.
        found: What it costs; ``None`` without figures that compare with the baseline's.
        num_valid: Trials with figures.
        num_invalid: Trials without.
        reason: Why there are no figures; ``""`` if there are.
        is_capped: Whether the power cap held its clock down.
        is_feasible: Whether it keeps to the constraints with the confidence asked for.
        is_baseline: Whether everything is compared with it.
        is_best: Whether it is the one to choose.
        in_set: Whether it cannot be told apart from the best.
        on_front: Whether no other allowed one beats it in energy, time and quality.
        is_knee: Whether it is the balanced one of those.
    """

    configuration: Configuration
    values: tuple[KnobValue, ...]
    found: Compared | None
    num_valid: int
    num_invalid: int
    reason: str
    is_capped: bool
    is_feasible: bool
    is_baseline: bool
    is_best: bool
    in_set: bool
    on_front: bool
    is_knee: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A search from what was asked to what was found.

    Attributes:
        study: Name of the study.
        problem: What was searched for.
        method: How.
        answer: What was found.
        rows: Every configuration that was tried: the baseline, then by cost, then those without
            figures.
        steps: Its course, trial by trial.
        boards: The boards.
        exclusions: Measurements that do not count.
        drifts: Trend of the baseline on each board; empty for a workload of several phases.
        source: Where energies come from, ``"counter"`` or ``"samples"``; ``""`` for none.
    """

    study: str
    problem: Problem
    method: SearchMethod
    answer: Answer
    rows: tuple[SearchRow, ...]
    steps: tuple[Step, ...]
    boards: tuple[DeviceIdentity, ...]
    exclusions: tuple[Exclusion, ...]
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
    """Put together what a search found.

    Args:
        measurements: All that it measured, valid or not.
        evidence: What came of its trials.
        steps: Its course.
        answer: Its answer.
        method: How it went about it.
    """
    valid = [m for m in measurements if m.valid]
    level = answer.standing.level
    has_one_phase = len({m.phase for m in measurements}) == 1
    return SearchResult(
        study=measurements[0].study,
        problem=evidence.problem,
        method=method,
        answer=answer,
        rows=_rows(evidence, answer),
        steps=tuple(steps),
        boards=tuple({m.device.uuid: m.device for m in measurements}.values()),
        exclusions=tuple(_exclusion(m, evidence) for m in measurements if not m.valid),
        drifts=drifts_of(valid, _label, level) if has_one_phase else (),
        source=valid[0].windows[0].source if valid else "",
    )


def _rows(evidence: Evidence, answer: Answer) -> tuple[SearchRow, ...]:
    space, found = evidence.problem.space, answer.compared
    tried = list(dict.fromkeys(outcome.candidate for outcome in evidence.outcomes))
    reasons = {o.candidate: o.reason for o in evidence.outcomes if o.reason is not None}
    invalid = Counter(o.candidate for o in evidence.outcomes if o.figures is None)
    front = {choice.configuration for choice in answer.front}
    rows = [
        SearchRow(
            configuration=each,
            values=space.values(each),
            found=found.get(each),
            num_valid=len(evidence.repeats(each)),
            num_invalid=invalid[each],
            reason="" if each in found else reasons.get(each, "not compared: boards not tied"),
            is_capped=each in answer.capped,
            is_feasible=each in found and evidence.judgement(each).is_feasible,
            is_baseline=each == space.baseline,
            is_best=each == answer.standing.best,
            in_set=each in answer.standing.members,
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


def _label(measurement: Measurement) -> str:
    return measurement.configuration.config_hash


def _exclusion(measurement: Measurement, evidence: Evidence) -> Exclusion:
    from joulelab.analysis.search_wording import configuration_name

    return Exclusion(
        measurement_id=measurement.measurement_id,
        label=configuration_name(measurement.configuration, evidence.problem.space),
        board=measurement.device.uuid,
        findings=measurement.findings,
    )
