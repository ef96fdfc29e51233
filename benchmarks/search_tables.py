#!/usr/bin/env python
"""How searches end on tables that break the law which the model-guided search assumes.

Usage: python benchmarks/search_tables.py [--seeds 20] [--rival-seeds 5] [--only NAME ...]

Every table is searched as a user gets it, model-guided with repeats, and by Optuna's TPE and
Gaussian process and at random with twice as many trials. Tables are those of
``broken_laws.py``; the recorded ones are left out where ../shared/data is missing.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import tyro
from broken_laws import Table, tables
from figures import Figure, print_figures, share_figure
from optuna_search import OptunaSearch
from rich.console import Console
from rich.table import Table as Printed

from joulelab.searching.answer import answer
from joulelab.searching.base import Strategy
from joulelab.searching.cost import cost_of
from joulelab.searching.race import Race
from joulelab.searching.strategies.model_guided import ModelGuided
from joulelab.searching.strategies.random import Random

_DATA = Path(__file__).parents[2] / "shared" / "data"
_WITHIN, _WORSE = 0.01, 0.03
_RIVALS = {"TPE": "TPESampler", "GP": "GPSampler", "random": None}
_CONSOLE = Console(width=160)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search tables that break the law.

    Attributes:
        seeds: How often each table is searched.
        rival_seeds: How often by each of the others; 0 for not at all.
        most: Trials that a search may make.
        only: Beginnings of the names of tables; all if there are none.
        data: Folder of the recorded tables.
    """

    seeds: int = 20
    rival_seeds: int = 5
    most: int = 40
    only: tuple[str, ...] = ()
    data: Path = _DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        trials: Trials until a configuration was measured that is within 1 % of the optimum;
            infinite if none was.
        regret: How far the choice is off.
        is_held: Whether an optimum is in the answer's set, measured or not.
        size: How many configurations that set has.
        made: Trials that the search made.
    """

    trials: float
    regret: float
    is_held: bool
    size: int
    made: int


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures; prints every table on the way."""
    settings = settings or Settings()
    wanted = [t for t in tables(settings.data) if t.name.startswith(settings.only or ("",))]
    found, rivals = {}, {}
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        for table in wanted:
            seeds = range(settings.seeds)
            found[table.name] = list(pool.map(partial(_run, table, settings.most), seeds))
            _CONSOLE.print(table.name, *_cells(found[table.name]), style="dim")
            num_trials = round(2 * np.mean([run.made for run in found[table.name]]))
            tasks = [(name, seed) for name in _RIVALS for seed in range(settings.rival_seeds)]
            regrets = pool.map(partial(_rival_regret, table, num_trials), tasks)
            rivals[table.name] = _means(tasks, list(regrets))
    _print(found, rivals)
    return list(_promised(found, rivals, settings))


def _run(table: Table, most: int, seed: int) -> Run:
    space, random = table.problem.space, np.random.default_rng(seed)
    race = Race(table.problem, ModelGuided(table.problem), num_trials=most)
    regret, trials, spent_j = table.regret, inf, 0.0
    while len(race.evidence.outcomes) < most and (asked := race.ask()) is not None:
        outcome = table.outcome(asked, random)
        race.tell(outcome)
        spent_j += outcome.figures.energy_j if outcome.figures else 0.0
        if regret[space.index(asked)] <= _WITHIN:
            trials = min(trials, len(race.evidence.outcomes))
    found = answer(race.evidence, spent_j=spent_j)
    shown = {*found.standing.members, *found.unmeasured}
    return Run(
        trials=trials,
        regret=float(regret[space.index(found.standing.best)]),
        is_held=any(regret[space.index(each)] < 1e-9 for each in shown),
        size=len(shown),
        made=len(race.evidence.outcomes),
    )


def _rival_regret(table: Table, num_trials: int, task: tuple[str, int]) -> float:
    """Return how far the lowest reading of another search is off in the end."""
    name, seed = task
    strategy, random = _rival(table, name, seed), np.random.default_rng(seed)
    found = []
    for _ in range(num_trials):
        asked = strategy.ask()
        if asked is None:
            break
        outcome = table.outcome(asked, random)
        strategy.tell(outcome)
        if outcome.figures is not None:
            cost = cost_of(table.problem.objective, outcome.figures).log
            found.append((cost, table.problem.space.index(asked)))
    return float(table.regret[min(found)[1]])


def _rival(table: Table, name: str, seed: int) -> Strategy:
    sampler = _RIVALS[name]
    if sampler is None:
        return Random(table.problem, seed=seed)
    return OptunaSearch(table.problem, sampler, seed=seed)


def _means(tasks: Sequence[tuple[str, int]], regrets: Sequence[float]) -> dict[str, float]:
    return {
        name: float(np.mean([r for (n, _), r in zip(tasks, regrets, strict=True) if n == name]))
        for name in (_RIVALS if tasks else ())
    }


def _print(found: dict[str, list[Run]], rivals: dict[str, dict[str, float]]) -> None:
    printed = Printed(
        *("table", "trials to 1 %: median", "never", "choice > 3 %", "regret: mean"),
        *("set holds optimum", "its size", "trials", *(f"{each}, twice" for each in _RIVALS)),
        title="Tables that break the law, EDP",
    )
    for name, runs in found.items():
        others = [f"{rivals[name][each]:.2%}" if each in rivals[name] else "" for each in _RIVALS]
        printed.add_row(name, *_cells(runs), *others)
    _CONSOLE.print(printed)


def _cells(runs: Sequence[Run]) -> list[str]:
    return [
        f"{np.median([run.trials for run in runs]):.0f}",
        f"{_never(runs):.0%}",
        f"{_worse(runs):.0%}",
        f"{_regret(runs):.2%}",
        f"{1 - _missing(runs):.0%}",
        f"{np.mean([run.size for run in runs]):.0f}",
        f"{np.mean([run.made for run in runs]):.0f}",
    ]


def _never(runs: Sequence[Run]) -> float:
    return float(np.mean([run.trials == inf for run in runs]))


def _worse(runs: Sequence[Run]) -> float:
    return float(np.mean([run.regret > _WORSE for run in runs]))


def _missing(runs: Sequence[Run]) -> float:
    return float(np.mean([not run.is_held for run in runs]))


def _regret(runs: Sequence[Run]) -> float:
    return float(np.mean([run.regret for run in runs]))


def _promised(
    found: dict[str, list[Run]], rivals: dict[str, dict[str, float]], settings: Settings
) -> Iterator[Figure]:
    every = [run for runs in found.values() for run in runs]
    how = f"{len(found)} tables x {settings.seeds} searches of at most {settings.most} trials"
    never = {name: _never(runs) for name, runs in found.items()}
    worst = max(never, key=never.__getitem__)
    yield share_figure("never within 1 %, worst table", never[worst], 3.0, f"{worst}; {how}")
    yield share_figure("choice worse than 3 %", _worse(every), 1.0, how)
    yield share_figure("optimum not in the answer's set", _missing(every), 5.0, how)
    if settings.rival_seeds:
        behind = {name: _regret(runs) - min(rivals[name].values()) for name, runs in found.items()}
        worst = max(behind, key=behind.__getitem__)
        yield share_figure(
            "regret at the end over the best rival's at twice the trials, worst table",
            behind[worst], 0.0, f"{worst}; {settings.rival_seeds} searches of each rival; {how}",
        )  # fmt: skip


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
