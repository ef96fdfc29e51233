"""Search for the best configuration of a program, in this process or wherever else a lab is."""

from collections.abc import Mapping, Sequence
from typing import Any

from joulelab.core.configuration import KnobValue
from joulelab.core.quality import Direction
from joulelab.errors import ANALYSIS, ConfigError, require
from joulelab.objectives import OBJECTIVES, Objective
from joulelab.runner import Costs, asked_of
from joulelab.searching.constraints import Constraint
from joulelab.searching.scores import with_scores
from joulelab.study.abstract_lab import AbstractLab
from joulelab.study.budget import Budget
from joulelab.study.kind import SEARCH, check_kind
from joulelab.study.lab import Lab, StudyWorkload
from joulelab.study.results import SearchStudy
from joulelab.study.resume import check_cost
from joulelab.study.search import RaceSettings, check_search, problem_on, run_race
from joulelab.tracking.store import ResultStore
from joulelab.workloads.program import Quality, Work


def search(
    program: object,
    space: Mapping[str, Sequence[KnobValue] | str],
    *,
    knobs: Mapping[str, KnobValue] | None = None,
    objective: str | Objective = "edp",
    quality_floor: float | None = 0.95,
    metric: str | None = None,
    constraints: Sequence[Constraint] = (),
    budget: Budget | None = None,
    strategy: str | None = None,
    most_repeats: int = 5,
    seed: int = 0,
    unit: str | None = None,
    work: Work | None = None,
    cost: Costs | None = None,
    quality: Quality | None = None,
    quality_direction: Direction | None = None,
    settings: object = None,
    lab: AbstractLab[Any] | None = None,
) -> SearchStudy:
    """Search for the configuration of a program that costs least, and say how sure it is.

    ::

        space = {"sm_clock_mhz": "all", "batch": [1, 8, 64]}
        found = joulelab.search("train.py:step", space, budget=joulelab.Budget(num_trials=40))
        print(found, found.best.values)

    Args:
        program: As for :func:`measure`.
        space: Values of what is chosen: of knobs, and of ``sm_clock_mhz``, ``mem_clock_mhz`` and
            ``power_limit_w``; ``"all"`` stands for the GPU's own SM clocks.
        knobs: Values of other knobs.
        objective: What is to be low: ``"edp"``, ``"ed2p"``, ``"energy"``, or ``"qep"``: energy x
            time / quality; or an ``Objective`` with exponents of your own.
        quality_floor: For ``"qep"``: least share of the baseline's quality to keep; ``None`` for no
            floor. For other objectives, ``Constraint(quantity="quality", bound=0.95)`` asks for it.
        metric: How outputs of one of our workloads are scored; by default its first metric.
        constraints: What must be kept to, e.g. ``Constraint(quantity="slowdown", bound=0.05)``.
        budget: When to stop at the latest; else when the answer is settled.
        strategy: What chooses: ``"model-guided"`` (the best alone), ``"front-guided"`` (also the
            front; the default for ``"qep"``), ``"ridge"``, ``"grid"``, ``"random"``, or that of a
            plug-in; on a Ray cluster also Ray Tune's ``"tpe"``, ``"nsga2"`` and ``"gp"``.
        most_repeats: Measurements of one configuration, as long as it may be the best.
        seed: Seed of the strategy.
        unit: As for :func:`measure`.
        work: As for :func:`measure`.
        cost: As for :func:`measure`.
        quality: What returns the scores of the outputs for the knobs, a number for each example or
            one for all; by default the program's own ``quality``.
        quality_direction: Which scores are better, ``"higher"`` (default) or ``"lower"``.
        settings: As for :func:`measure`.
        lab: As for :func:`measure`; there may be several GPUs.

    Raises:
        ConfigError: If it cannot be carried out as asked for.
        DeviceError: If there is no such GPU, or it cannot be used.
        MeasurementError: If what was measured allows no answer.
    """
    require(*ANALYSIS)
    lab = lab or Lab()
    aim = OBJECTIVES[objective] if isinstance(objective, str) else objective
    bounds = tuple(constraints)
    if aim.quality_exponent and quality_floor is not None:
        bounds = (*bounds, Constraint(quantity="quality", bound=quality_floor))
    counts_quality = _counts_quality(aim, bounds, metric or quality)
    strategy = strategy or ("front-guided" if aim.quality_exponent else "model-guided")
    options: dict[str, Any] = {"unit": unit, "work": work, "cost": cost}
    options |= {"quality": quality, "quality_direction": quality_direction}
    workload = StudyWorkload(program, knobs, **options)
    check_search(lab, workload, space, bounds, strategy=strategy, seed=seed)
    with lab.open(workload.name) as gpus:
        workload.check(gpus)
        facts = lab.facts(gpus)
        problem = problem_on(gpus, workload, space, aim, bounds, calibration=facts)
        known = problem.space.axes.get("precision", ())
        if lacking := [str(each) for each in space.get("precision", ()) if each not in known]:
            lacks = f"{gpus[0].identity.name} does not compute in {', '.join(lacking)}"
            lab.console().print(f"{lacks}, which is left out.", highlight=False)
        check_cost(problem.space.baseline, gpus)
        folder = lab.folder(f"{'qep' if aim.quality_exponent else 'search'}-{workload.name}", gpus)
        check_kind(ResultStore(folder), SEARCH)  # before minutes of scoring
        scores = None
        if counts_quality:
            scores = lab.score(problem.space, gpus[0], folder, metric=metric)
            problem = with_scores(problem, scores)
        race = RaceSettings(
            algorithm=strategy, budget=budget or Budget(), most_repeats=most_repeats, seed=seed
        )
        header = settings or asked_of(workload, aim.name, lab)
        summary, result = run_race(problem, race, lab, gpus, folder, settings=header)
    return SearchStudy(
        folder=folder, summary=summary.study, result=result, words=summary.words, scores=scores
    )


def _counts_quality(aim: Objective, constraints: Sequence[Constraint], quality: object) -> bool:
    """Whether outputs must be scored; what is given on their quality is not to be ignored."""
    counts = any(each.quantity == "quality" for each in constraints) or aim.quality_exponent > 0
    if quality is not None and not counts:
        raise ConfigError(
            f"Quality does not count for the objective {aim.name!r}; take 'qep', or add "
            "Constraint(quantity='quality', bound=0.95), or leave out quality and metric."
        )
    return counts
