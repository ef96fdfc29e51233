#!/usr/bin/env python
"""How many trials searches need, how far off they end, and whether they know how sure they are.

Usage: python benchmarks/search_regret.py [--seeds 20] [--most 150]

Every search gets the same simulated surfaces, 61 clocks x 6 batches x 4 precisions of networks on
an A100 in its steady state (the board's physics with its power cap and heat), and the same noise by
seed. That board follows a law of the kind that the model-guided search assumes, with figures of the
catalogue; ``search_clock.py`` searches sweeps that were measured as well. Optuna's TPE, NSGA-II and
Gaussian process take part.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import get_context

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from optuna_search import OptunaSearch
from rich.console import Console
from rich.table import Table
from search_surface import BATCHES, PRECISIONS, SPEC, Surface, simulated

from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Strategy, cost_of
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies import STRATEGIES
from joulelab.searching.strategies.model_guided import ModelGuided

_WITHIN = 0.01
_SHARE = 0.05
_SAMPLERS = {"TPE": "TPESampler", "NSGA-II": "NSGAIISampler", "GP": "GPSampler"}
_CONSOLE = Console(width=140)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare searches.

    Attributes:
        seeds: How often each search is run on each surface.
        most: Trials after which a search that is not within 1 % is given up.
    """

    seeds: int = 20
    most: int = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        surface: What was searched.
        search: What searched.
        trials: Trials until the best measured one was truly within 1 % of the optimum; infinite
            if it never was.
        regret: How far the best measured one was off after 5 % of the grid, or at the end of a
            search that stopped by itself before.
        made: Trials that it made up to 5 % of the grid.
        held: Whether the set that it could not tell apart holds an optimum; ``None`` if it
            gives no set.
        size: How many configurations that set has.
    """

    surface: str
    search: str
    trials: float
    regret: float
    made: int
    held: bool | None = None
    size: int = 0


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    settings = settings or Settings()
    searches = ["random", "ridge", "model-guided", *_SAMPLERS]
    surfaces = [simulated(workload) for workload in PRECISIONS]
    seeds = range(settings.seeds)
    tasks = [(surface, s, seed) for surface in surfaces for s in searches for seed in seeds]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(partial(_run, settings.most), tasks, chunksize=10))
    _print_runs(runs, searches)
    return _promised(runs, searches, settings)


def _made(search: str, problem: Problem, seed: int) -> Strategy:
    if search in _SAMPLERS:
        return OptunaSearch(problem, _SAMPLERS[search], seed=seed)
    return STRATEGIES[search](problem, seed=seed)  # type: ignore[call-arg]


def _run(most: int, task: tuple[Surface, str, int]) -> Run:
    surface, search, seed = task
    strategy = _made(
        search, Problem(space=surface.space, objective=OBJECTIVES["edp"], gpu=SPEC), seed
    )
    random, goal = np.random.default_rng(seed), OBJECTIVES["edp"]
    true_regret, num_share = surface.regret, int(_SHARE * len(surface.space))
    lowest, trials, at_share, made = inf, inf, inf, 0
    for number in range(1, most + 1):
        asked = strategy.ask()
        if asked is None:
            break
        place = surface.space.index(asked)
        outcome = surface.outcome(place, random)
        strategy.tell(outcome)
        cost = cost_of(goal, outcome.figures).log
        if cost < lowest:
            lowest, now = cost, float(np.expm1(true_regret[place]))
        if now <= _WITHIN:
            trials = min(trials, number)
        if number <= num_share:
            at_share, made = now, number
        elif trials < inf:
            break
    held, size = _held(strategy, surface)
    return Run(
        surface=surface.space.workload,
        search=search,
        trials=trials,
        regret=at_share,
        made=made,
        held=held,
        size=size,
    )


def _held(strategy: Strategy, surface: Surface) -> tuple[bool | None, int]:
    if not isinstance(strategy, ModelGuided):
        return None, 0
    equals = strategy.equals()
    regrets = surface.regret[[surface.space.index(each) for each in equals]]
    return bool(regrets.min() < 1e-9), len(equals)


def _print_runs(runs: Sequence[Run], searches: Sequence[str]) -> None:
    table = Table(
        *("surface", "search", "trials to 1 %: mean", "median", "p95", "never"),
        *("regret after 5 %: mean", "p95", "trials made", "set holds optimum", "its size"),
        title="Simulated A100, 61 clocks x 6 batches x 4 precisions, EDP",
    )
    for surface in PRECISIONS:
        for search in searches:
            own = [r for r in runs if (r.surface, r.search) == (surface, search)]
            table.add_row(surface, search, *_cells(own))
    _CONSOLE.print(table)


def _cells(own: Sequence[Run]) -> list[str]:
    trials = np.array([run.trials for run in own])
    regrets = [run.regret for run in own]
    held = [run.held for run in own if run.held is not None]
    return [
        *(f"{value:.1f}" for value in (trials.mean(), np.median(trials))),
        f"{np.quantile(trials, 0.95, method='higher'):.0f}",
        f"{np.isinf(trials).mean():.0%}",
        f"{np.mean(regrets):.2%}",
        f"{np.quantile(regrets, 0.95):.2%}",
        f"{np.mean([run.made for run in own]):.0f}",
        f"{np.mean(held):.0%}" if held else "",
        f"{np.mean([run.size for run in own]):.0f}" if held else "",
    ]


def _promised(runs: Sequence[Run], searches: Sequence[str], settings: Settings) -> list[Figure]:
    own = [run for run in runs if run.search == "model-guided"]
    size = len(SPEC.study_clocks_mhz) * len(BATCHES) * 4
    how = f"{len(own)} searches of {', '.join(PRECISIONS)}; simulated A100, {size} configurations"
    p95 = float(np.quantile([run.trials for run in own], 0.95, method="higher"))
    regrets = [run.regret for run in own]
    missing = float(np.mean([not run.held for run in own]))
    mean_size = np.mean([run.size for run in own])
    ratio, pair = max(_over_others(runs, searches))
    return [
        share_figure(
            "share of the grid until EDP is within 1 %, p95", p95 / size, 100 * _SHARE, how
        ),
        share_figure("EDP regret at the end, mean", float(np.mean(regrets)), 1.0, how),
        share_figure("the same, p95", float(np.quantile(regrets, 0.95)), 1.0, how),
        share_figure("optimum not in the set", missing, 5.0, f"{how}; mean set {mean_size:.0f}"),
        Figure(
            name="median trials to 1 % over those of the best other search",
            measured=ratio,
            promised=1.0,
            unit="",
            how=f"{pair}; given up after {settings.most} trials",
        ),
    ]


def _over_others(runs: Sequence[Run], searches: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Yield our median of trials over that of every other search on every surface."""
    for surface in PRECISIONS:
        medians = {
            search: float(np.median([r.trials for r in runs if (r.surface, r.search) == pair]))
            for search, pair in ((each, (surface, each)) for each in searches)
        }
        own = medians.pop("model-guided")
        for search, median in medians.items():
            yield own / median, f"{search} on {surface}"


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
