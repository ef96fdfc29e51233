#!/usr/bin/env python
"""How many trials searches spend on what breaks a bound that the baseline breaks, or is capped.

Usage: python benchmarks/bounded_searches.py [--seeds 6] [--only NAME ...]

Grids of clock and batch of simulated GPUs, on which the driver's own clock at the workload's own
batch breaks the bound; beside them slowdowns, which it cannot break. Four GPUs measure at once and
have one trial ahead each, as in a search by the command. A clock that the power cap holds is
invalid, as it is measured. The baseline itself is not counted, which everything is compared with.
Two bounds are such that nothing keeps to them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context

import numpy as np
import tyro
from figures import Figure, print_figures
from search_surface import Surface, surface_of

from joulelab.core.configuration import KnobValue
from joulelab.core.trial import Trial
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome
from joulelab.searching.constraints import Constraint, Quantity, over_cells
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace, at_default
from joulelab.searching.strategies.model_guided import ModelGuided
from joulelab.study.budget import Budget
from joulelab.study.search_queue import Search, SearchQueue, Sentinel
from joulelab.workloads import WORKLOADS

_NUM_GPUS, _AHEAD = 4, 2
_NEAR = 0.01
"""How near to a bound is a matter of luck: a trial there is not wasted, and no choice is missed."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search under bounds that the baseline breaks.

    Attributes:
        seeds: Searches of each case.
        num_trials: Trials that each may make.
        only: Beginnings of the names of cases; all if there are none.
    """

    seeds: int = 6
    num_trials: int = 40
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A search with a bound.

    Attributes:
        gpu: In the catalogue.
        workload: What runs.
        knobs: Its settings that differ from the usual.
        quantity: What is bounded.
        over: The bound over what the baseline has; of a slowdown, 1 and the bound.
    """

    gpu: str
    workload: str
    quantity: Quantity
    over: float
    knobs: tuple[tuple[str, KnobValue], ...] = ()
    batches: tuple[int, ...] = (1, 8, 32, 128)

    @property
    def name(self) -> str:
        """What to call it."""
        knobs = " ".join(f"{value}" for _, value in self.knobs)
        return f"{self.gpu} {self.workload} {knobs}: {self.quantity} x {self.over:g}"


_LLAMA_3 = (("model", "llama-3-8b"),)
_LONG = (("model", "llama-2-7b"), ("prompt_tokens", 2048))
CASES = (
    Case(gpu="h100_sxm", workload="llama", knobs=_LLAMA_3, quantity="slowdown", over=1.05),
    Case(gpu="a100_sxm", workload="vit", quantity="slowdown", over=1.05),
    Case(gpu="h100_sxm", workload="llama", knobs=_LLAMA_3, quantity="throughput_per_s", over=12),
    Case(gpu="h100_sxm", workload="llama", knobs=_LLAMA_3, quantity="throughput_per_s", over=40),
    Case(gpu="h200_sxm", workload="llama", knobs=_LONG, quantity="throughput_per_s", over=6),
    Case(gpu="a100_sxm", workload="llama", knobs=_LLAMA_3, quantity="power_w", over=0.8),
    Case(
        gpu="h100_sxm",
        workload="llama",
        knobs=(*_LLAMA_3, ("batch", 128)),
        quantity="latency_s",
        over=0.6,
    ),
    Case(
        gpu="a100_sxm",
        workload="vit",
        knobs=(("batch", 64),),
        batches=(1, 4, 16, 64, 256),
        quantity="latency_s",
        over=0.5,
    ),
    Case(gpu="h200_sxm", workload="resnet50", quantity="throughput_per_s", over=1.4),
    Case(gpu="h200_sxm", workload="resnet50", quantity="throughput_per_s", over=4),
    Case(gpu="h100_sxm", workload="llama", knobs=_LLAMA_3, quantity="latency_s", over=1e-3),
)
"""The last two are broken by everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is searched, and which configurations keep to the bound, surely or nearly."""

    problem: Problem
    surface: Surface
    latency_s: np.ndarray
    keeps: np.ndarray
    is_near: np.ndarray

    @property
    def is_measurable(self) -> np.ndarray:
        """Where no clock is asked for that the power cap holds down."""
        has_clock = [each.point.sm_clock_mhz is not None for each in self.problem.space]
        is_held = [held_mhz is not None for held_mhz in self.surface.held_mhz]
        return ~(np.array(is_held) & np.array(has_clock))


@cache
def truth_of(case: Case) -> Truth:
    """Return what is true of a case."""
    spec, knobs = GPUS[case.gpu], dict(case.knobs)
    axes: Mapping[str, Sequence[KnobValue]] = {
        "sm_clock_mhz": spec.study_clocks_mhz,
        "batch": case.batches,
    }
    named = [Constraint(quantity=case.quantity, bound=1.0)]
    space = SearchSpace(case.workload, axes, knobs=knobs, references=over_cells(named))
    surface = surface_of(space, spec)
    time_s, energy_j = np.array(surface.time_s), np.array(surface.energy_j)
    latency_s = time_s * _request_sizes(space)
    usual_s = time_s[
        [space.index(at) if (at := at_default(each)) in space else 0 for each in space]
    ]
    value = {
        "slowdown": time_s / usual_s,
        "throughput_per_s": time_s,
        "latency_s": latency_s,
        "power_w": energy_j / time_s,
    }[case.quantity]
    share = 1 / case.over if case.quantity == "throughput_per_s" else case.over
    bound = value[0] * share
    over = value / bound
    asked = {"throughput_per_s": 1 / bound, "slowdown": bound - 1.0}.get(case.quantity, bound)
    constraint = Constraint(quantity=case.quantity, bound=float(asked))
    return Truth(
        problem=Problem(
            space=space, objective=OBJECTIVES["edp"], constraints=(constraint,), gpu=spec
        ),
        surface=surface,
        latency_s=latency_s,
        keeps=over <= 1.0 - _NEAR,
        is_near=over <= 1.0 + _NEAR,
    )


def _request_sizes(space: SearchSpace) -> np.ndarray:
    """Return the units of work in a request of each configuration."""
    kind = WORKLOADS[space.workload]
    sizes = {cell: kind.from_knobs(dict(cell)).request.size for cell in space.cells}
    return np.array([sizes.get(each.knobs, 1.0) for each in space])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        num_wasted: Trials on what breaks the bound, the baseline and what nearly keeps it apart.
        num_capped: Trials on clocks that the power cap holds.
        made: All trials.
        regret: EDP of the choice over the least that surely keeps to the bound, less 1, or 0 where
            it is lower; ``None`` where nothing keeps to it.
        is_right: Whether the choice truly keeps to it, to 1 %, or none is made where none does.
    """

    num_wasted: int
    num_capped: int
    made: int
    regret: float | None
    is_right: bool


def run(case: Case, num_trials: int, seed: int) -> Run:
    """Search a case once."""
    truth = truth_of(case)
    problem, random = truth.problem, np.random.default_rng(seed)
    race = Race(problem, ModelGuided(problem), num_trials=num_trials)
    search = Search(
        study="bounded",
        strategy=race,
        budget=Budget(num_trials=num_trials),
        sentinel=Sentinel(configuration=problem.space.baseline),
    )
    queue, boards = SearchQueue(search), [f"GPU-{i}" for i in range(_NUM_GPUS)]
    queue.resume([], boards, lambda point: None)
    out: dict[str, list[Trial]] = {uuid: [] for uuid in boards}
    while True:
        for uuid, trials in out.items():
            while len(trials) < _AHEAD and (trial := queue.take(uuid)) is not None:
                trials.append(trial)
        if not any(out.values()):
            break
        uuid = str(random.choice([uuid for uuid, trials in out.items() if trials]))
        trial = out[uuid].pop(0)
        queue.settle(trial, _outcome(truth, trial, uuid, random))
    return _judged(truth, race)


def _outcome(truth: Truth, trial: Trial, uuid: str, random: np.random.Generator) -> Outcome:
    place = truth.problem.space.index(trial.configuration)
    found = truth.surface.outcome(place, random)
    latency_s = float(truth.latency_s[place]) * found.figures.time_s / truth.surface.time_s[place]
    figures = replace(found.figures, board=uuid, latency_s=latency_s)
    if truth.is_measurable[place]:
        return replace(found, figures=figures)
    return replace(found, figures=None, reason="power_capped", held=figures)


def _judged(truth: Truth, race: Race) -> Run:
    space, now = truth.problem.space, race.standing()
    tried = np.array([space.index(each.candidate) for each in race.evidence.outcomes])
    tried = tried[tried != 0]
    is_capped = ~truth.is_measurable[tried]
    allowed = truth.keeps & truth.is_measurable
    edp = np.array(truth.surface.energy_j) * np.array(truth.surface.time_s)
    regret, is_right = None, now is not None and now.is_feasible == bool(allowed.any())
    if now is not None and allowed.any():
        chosen = space.index(now.best)
        is_right &= bool(truth.is_near[chosen])
        regret = max(float(edp[chosen] / edp[allowed].min() - 1.0), 0.0)
    return Run(
        num_wasted=int(np.sum(~truth.is_near[tried] & ~is_capped)),
        num_capped=int(np.sum(is_capped)),
        made=len(race.evidence.outcomes),
        regret=regret,
        is_right=is_right,
    )


def figures(settings: Settings | None = None) -> Iterator[Figure]:
    """Yield the figures; prints every case on the way."""
    settings = settings or Settings()
    every: list[Run] = []
    means: dict[str, float] = {}
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        for case in (each for each in CASES if each.name.startswith(settings.only or ("",))):
            runs = list(pool.map(partial(run, case, settings.num_trials), range(settings.seeds)))
            means[case.name] = float(np.mean([r.num_wasted + r.num_capped for r in runs]))
            _print(case, runs)
            every += runs
    how = f"{len(means)} cases x {settings.seeds} searches of at most {settings.num_trials} trials"
    worst = max(means, key=means.__getitem__)
    yield Figure(
        name="wasted beyond a bound or the cap, in the worst case",
        measured=means[worst],
        promised=4,
        unit="trials",
        how=f"{how}; {worst}; mean of all {np.mean(list(means.values())):.1f}",
    )
    wrong = 100 * float(np.mean([not each.is_right for each in every]))
    yield Figure(name="choice breaks the bound", measured=wrong, promised=5, unit="%", how=how)
    regret = 100 * float(np.mean([each.regret for each in every if each.regret is not None]))
    yield Figure(name="regret within the bound", measured=regret, promised=1, unit="%", how=how)


def _print(case: Case, runs: Sequence[Run]) -> None:
    wasted, capped, made = (
        np.array([getattr(each, name) for each in runs])
        for name in ("num_wasted", "num_capped", "made")
    )
    regrets = [f"{100 * each.regret:.1f}" for each in runs if each.regret is not None]
    share = truth_of(case).keeps.mean()
    print(
        f"{case.name} ({share:.0%} keep to it): wasted {wasted}, capped {capped} of {made}, "
        f"regrets {' '.join(regrets)} %, {sum(each.is_right for each in runs)} right",
        flush=True,
    )


if __name__ == "__main__":
    print_figures(list(figures(tyro.cli(Settings, description=__doc__))))
