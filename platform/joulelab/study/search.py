"""A search from what was asked to its answer, whoever measures its trials."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from joulelab.analysis.search_result import (
    ASKED,
    SearchMethod,
    SearchResult,
    asked_log,
    search_result,
)
from joulelab.analysis.search_wording import UNDER_WAY
from joulelab.core.bounds import MOST_SEED, check_range
from joulelab.core.configuration import KnobValue
from joulelab.core.measurement import Measurement
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.errors import ConfigError
from joulelab.hardware.board_facts import BoardFacts
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.hardware.spec import GpuSpec
from joulelab.objectives import Objective
from joulelab.searching.answer import answer
from joulelab.searching.constraints import Constraint, over_cells
from joulelab.searching.course import Course
from joulelab.searching.evidence import Evidence, Problem
from joulelab.searching.race import Race, num_confirming
from joulelab.searching.space import POINT_AXES, SearchSpace
from joulelab.study.abstract_lab import AbstractLab
from joulelab.study.budget import Budget
from joulelab.study.conclude import write_search
from joulelab.study.gpu import (
    StudyGpu,
    check_clocks,
    check_power_limits,
    simulated_processor,
    study_clocks_mhz,
)
from joulelab.study.kind import SEARCH
from joulelab.study.lab import StudyWorkload
from joulelab.study.ledger import SearchSummary
from joulelab.study.resume import History, history_of
from joulelab.study.run import run_asked
from joulelab.study.search_progress import SearchProgress
from joulelab.study.search_queue import Search, Sentinel, lookup
from joulelab.tracing.precision import check_precision, supports
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import RunMetrics
from joulelab.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """How a search goes about it: it repeats what may be the best up to ``most_repeats`` times."""

    algorithm: str
    budget: Budget = field(default_factory=Budget)
    most_repeats: int = 5
    seed: int = 0

    def method(self, stopped_by: str) -> SearchMethod:
        """Return the same for the answer, with what ended the search."""
        return SearchMethod(
            algorithm=self.algorithm,
            seed=self.seed,
            budget=self.budget.words,
            most_repeats=self.most_repeats,
            stopped_by=stopped_by,
            num_confirming=num_confirming(self.budget.num_trials),
        )


def run_race(
    problem: Problem,
    race: RaceSettings,
    lab: AbstractLab[Any],
    gpus: Sequence[StudyGpu],
    folder: Path,
    *,
    settings: object,
) -> tuple[SearchSummary, SearchResult]:
    """Search for the best of ``problem``, repeat what may be it, and write what was found.

    ``folder`` has the study's name; ``settings`` are for its header. Raises MeasurementError if
    what was measured allows no answer.
    """
    problem = replace(problem, horizon_s=3600.0 * race.budget.horizon_h)
    screening = lab.strategy(race.algorithm)(problem, seed=race.seed)
    num_trials = race.budget.num_trials
    strategy = Race(problem, screening, most_repeats=race.most_repeats, num_trials=num_trials)
    results: list[SearchResult] = []
    baseline = problem.space.baseline
    progress = SearchProgress(problem, race.budget, lab.console())
    with progress:
        setup = lab.setup(
            gpus,
            folder,
            {baseline.workload},
            settings=settings,
            on_event=progress,
            procedure=_procedure(lab, problem),
            kind=SEARCH,
        )
        asked = asked_log(problem, race.method(UNDER_WAY))
        setup = replace(setup, begin=lambda store: store.write_file(ASKED, asked))
        search = Search(
            study=folder.name,
            strategy=strategy,
            budget=race.budget,
            sentinel=Sentinel(configuration=baseline),
            objective=problem.objective,
            score=lookup(problem.qualities),
            follow=progress.follow,
        )

        def conclude(store: ResultStore, stopped_by: str) -> None:
            method = race.method(stopped_by)
            results.append(conclude_search(store, strategy.evidence, progress.course, method))

        summary = run_asked(search, setup, conclude)
    return summary, results[0]


def _procedure(lab: AbstractLab[Any], problem: Problem) -> Procedure:
    """Return how trials are measured: quickly, unless it counts how hot a board gets in the end."""
    is_heat_bound = any(each.quantity == "temperature_c" for each in problem.constraints)
    asked = lab.procedure if is_heat_bound else lab.procedure.in_search()
    return asked if problem.calibration is None else problem.calibration.adapted(asked)


def conclude_search(
    store: ResultStore, evidence: Evidence, course: Course, method: SearchMethod
) -> SearchResult:
    """Work out what a search found and write answer, report, plots and table.

    ``evidence`` is what the strategy knows of the results in ``store``, ``course`` the same
    trial by trial. Raises MeasurementError if the baseline was not measured, or nothing ties it to
    the best; TrackingError if the results cannot be read or the answer not be written.
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
) -> list[RunMetrics]:
    """Return what each measurement's trial shows beside it.

    A trial of several phases has one cost, that of all of them together.
    """
    by_trial: dict[tuple[str, int], list[str]] = {}
    for m in measurements:
        by_trial.setdefault((m.trial, m.attempt), []).append(m.measurement_id)
    runs = []
    for trial, outcome in zip(history.trials, history.outcomes, strict=True):
        known = evidence.mean(trial.configuration)
        if outcome.figures is None or known is None:
            continue
        figures = replace(outcome.figures, retention=known.retention, retention_u=known.retention_u)
        numbers = {"cost_ratio": course.cost_ratio(figures), "retention": known.retention}
        shown = tuple((name, value) for name, value in numbers.items() if value is not None)
        runs += [
            RunMetrics(measurement_id=each, values=shown)
            for each in by_trial[trial.name, trial.attempt]
        ]
    return runs


AskedAxes = Mapping[str, Sequence[KnobValue] | str]
"""Values of each axis; ``"all"`` stands for the GPU's own SM clocks."""


def check_search(
    lab: AbstractLab[Any],
    program: StudyWorkload,
    asked: AskedAxes,
    constraints: Sequence[Constraint] = (),
    *,
    strategy: str,
    seed: int,
) -> None:
    """Refuse, before there is a GPU, what none could search.

    Raises ConfigError if there is no such strategy or seed, the program refuses a knob's value or
    has not what is bounded, an axis is none, or one needs setters although none may be called.
    """
    check_range("seed", seed, 0, MOST_SEED)
    lab.strategy(strategy)
    _check_bounded(program, constraints)
    for name, values in asked.items():
        if isinstance(values, str) and (name, values) != ("sm_clock_mhz", "all"):
            raise ConfigError(
                f"An axis is a list of values, got {values!r} for {name}; 'all' goes with "
                "sm_clock_mhz alone."
            )
        if name in POINT_AXES and lab.observe_only:
            raise ConfigError(f"observe_only calls no setter; leave {name} out of the search.")
        for value in values if name in POINT_AXES and not isinstance(values, str) else ():
            at: dict[str, Any] = {name: value}
            OperatingPoint(**at)
    if knobs := {name: tuple(v) for name, v in asked.items() if name not in POINT_AXES}:
        _space(program, knobs)


def _check_bounded(program: StudyWorkload, constraints: Sequence[Constraint]) -> None:
    """Refuse, by a ConfigError, to bound a time that requests of the program do not have."""
    request = WORKLOADS[program.name].from_knobs(asdict(program.settings)).request
    lacking: dict[str, str] = {}
    if request is None or request.num_generated is None:
        lacking = dict.fromkeys(("ttft_s", "tpot_s"), "does not tell the times of tokens")
    if request is None:
        lacking["latency_s"] = "does not tell how long a request takes"
    for each in constraints:
        if each.quantity in lacking:
            raise ConfigError(
                f"{each.quantity} is bounded by {each.bound:g}, but {program.name} "
                f"{lacking[each.quantity]}; leave out that bound."
            )


def problem_on(
    gpus: Sequence[StudyGpu],
    program: StudyWorkload,
    asked: AskedAxes,
    objective: Objective,
    constraints: Sequence[Constraint] = (),
    *,
    calibration: BoardFacts | None = None,
) -> Problem:
    """Return what is searched for on ``gpus``, which are of one product.

    ``calibration`` is what was measured of one, which goes over what the catalogue says. Raises
    ConfigError if there is nothing to choose, a power limit that may not be set, or if a GPU that
    is simulated computes in none of the formats.
    """
    common_mhz = [
        clock
        for clock in study_clocks_mhz(gpus)
        if all(clock in gpu.capabilities.sm_clocks_mhz for gpu in gpus)
    ]
    axes = {
        name: tuple(common_mhz if isinstance(values, str) else values)
        for name, values in asked.items()
    }
    for knob in ("sm_clock_mhz", "mem_clock_mhz"):
        check_clocks(knob, cast("Sequence[int | None]", axes.get(knob, ())), gpus)
    limits_w = axes.get("power_limit_w", ())
    check_power_limits([float(str(w)) for w in limits_w if w is not None], gpus)
    axes |= _computable(axes, program, gpus[0])
    return Problem(
        space=_space(program, axes, references=over_cells(constraints)),
        objective=objective,
        constraints=tuple(constraints),
        gpu=_known(gpus[0], calibration),
        top_clock_mhz=max(gpus[0].capabilities.sm_clocks_mhz, default=None),
        calibration=calibration,
    )


def _known(gpu: StudyGpu, calibration: BoardFacts | None) -> GpuSpec | None:
    spec = spec_of_boards(gpu.identity.name)
    if spec is None or calibration is None:
        return spec
    from joulelab.power_models.board_fit import calibrated_spec  # it needs SciPy

    return calibrated_spec(spec, calibration)


def _computable(
    axes: Mapping[str, Sequence[KnobValue]], program: StudyWorkload, gpu: StudyGpu
) -> Mapping[str, tuple[KnobValue, ...]]:
    """Return the axis of formats, if there is one, with those that a simulated GPU computes in.

    A real GPU is asked by running them. Raises ConfigError if the program's own is none of them.
    """
    processor, own = simulated_processor(gpu), asdict(program.settings).get("precision")
    if processor is None or own is None:
        return {}
    formats = axes.get("precision", (own,))
    check_precision(own if own in formats else str(formats[0]), processor)
    known = tuple(each for each in formats if supports(str(each), processor))
    return {"precision": known} if "precision" in axes else {}


def _space(
    program: StudyWorkload, axes: Mapping[str, Sequence[KnobValue]], *, references: bool = False
) -> SearchSpace:
    return SearchSpace(program.name, axes, knobs=asdict(program.settings), references=references)
