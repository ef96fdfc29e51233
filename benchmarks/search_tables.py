#!/usr/bin/env python
"""How searches end on tables that break the law which the model-guided search assumes.

Usage: python benchmarks/search_tables.py [--seeds 20] [--gp-seeds 2] [--only NAME ...]

Every table is searched as a user gets it, model-guided with repeats, and by Optuna's TPE and
Gaussian process and at random with twice as many trials. Tables are those of
``broken_laws.py``; the recorded ones are left out where ../shared/data is missing.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
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
from scipy.stats import binomtest

from joulelab.searching.answer import answer
from joulelab.searching.base import Strategy, cost_of
from joulelab.searching.race import Race
from joulelab.searching.strategies.listed import Random
from joulelab.searching.strategies.model_guided import ModelGuided

_DATA = Path(__file__).parents[2] / "shared" / "data"
_WITHIN, _WORSE = 0.01, 0.03
_RIVALS = {"TPE": "TPESampler", "GP": "GPSampler", "random": None}
_CONSOLE = Console(width=180)
Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search tables that break the law.

    Attributes:
        seeds: How often each table is searched.
        rival_seeds: How often by each of the others; 0 for not at all.
        gp_seeds: How often by the Gaussian process, which takes 5 s for a search.
        most: Trials that a search may make.
        only: Beginnings of the names of tables; all if there are none.
        data: Folder of the recorded tables.
    """

    seeds: int = 20
    rival_seeds: int = 20
    gp_seeds: int = 2
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """All searches of one table.

    Attributes:
        name: Of the table.
        runs: Our searches.
        rivals: How far the choices of each other search are off.
    """

    name: str
    runs: Sequence[Run]
    rivals: Mapping[str, Array]

    @property
    def regrets(self) -> Array:
        """How far our choices are off."""
        return np.array([run.regret for run in self.runs])


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures; prints every table on the way."""
    settings = settings or Settings()
    wanted = [t for t in tables(settings.data) if t.name.startswith(settings.only or ("",))]
    every: list[Searched] = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        for source in dict.fromkeys(table.source for table in wanted):
            of_source = [_searched(pool, t, settings) for t in wanted if t.source == source]
            _print(source, of_source)
            every += of_source
    return list(_promised(every, settings))


def _searched(pool: ProcessPoolExecutor, table: Table, settings: Settings) -> Searched:
    runs = list(pool.map(partial(_run, table, settings.most), range(settings.seeds)))
    num_trials = round(2 * np.mean([run.made for run in runs]))
    seeds = dict.fromkeys(_RIVALS, settings.rival_seeds) | {"GP": settings.gp_seeds}
    tasks = [(name, seed) for name, num in seeds.items() for seed in range(num)]
    regrets = list(pool.map(partial(_rival_regret, table, num_trials), tasks))
    found = [(name, regret) for (name, _), regret in zip(tasks, regrets, strict=True)]
    rivals = {each: np.array([r for name, r in found if name == each]) for each in seeds}
    return Searched(name=table.name, runs=runs, rivals=rivals)


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


def _print(source: str, every: Sequence[Searched]) -> None:
    printed = Printed(
        *("table", "n", "trials to 1 %: median", "never", "choice > 3 %", "set holds optimum"),
        *("its size", "trials", "regret, %: mean", *(f"less {name}'s" for name in _RIVALS)),
        title=f"{source}: EDP, the others with twice the trials",
    )
    for each in every:
        printed.add_row(each.name, *_cells([each]))
    printed.add_row("all", *_cells(every))
    _CONSOLE.print(printed)


def _cells(every: Sequence[Searched]) -> list[str]:
    runs = [run for each in every for run in each.runs]
    return [
        f"{len(runs)}",
        f"{np.median([run.trials for run in runs]):.0f}",
        *(_share([told(run) for run in runs]) for told in (_is_never, _is_worse, _is_held)),
        *(f"{np.mean([n(run) for run in runs]):.0f}" for n in (_size, _made)),
        f"{100 * _mean_u([each.regrets for each in every])[0]:.2f}",
        *(_lead(every, name) for name in _RIVALS),
    ]


def _share(found: Sequence[bool]) -> str:
    """Return a share with its 95 % interval (Clopper and Pearson)."""
    interval = binomtest(sum(found), len(found)).proportion_ci(0.95)
    return f"{np.mean(found):.1%} ({interval.low:.1%}-{interval.high:.1%})"


def _lead(every: Sequence[Searched], name: str) -> str:
    """Return mean regret over another search's, in percent, with its 95 % interval."""
    if not all(len(each.rivals[name]) for each in every):
        return ""
    own, other = (_mean_u(found) for found in _regrets(every, name))
    lead, u = f"{100 * (own[0] - other[0]):+.2f}", float(np.hypot(own[1], other[1]))
    return f"{lead} +- {196 * u:.2f}" if np.isfinite(u) else lead  # a single search has no scatter


def _regrets(every: Sequence[Searched], name: str) -> tuple[list[Array], list[Array]]:
    return [each.regrets for each in every], [each.rivals[name] for each in every]


def _mean_u(found: Sequence[Array]) -> tuple[float, float]:
    """Return the mean over tables and its standard error over searches."""
    variance = [of.var(ddof=1) / len(of) if len(of) > 1 else np.nan for of in found]
    return float(np.mean([of.mean() for of in found])), float(
        np.sqrt(np.sum(variance)) / len(found)
    )


def _is_never(run: Run) -> bool:
    return run.trials == inf


def _is_worse(run: Run) -> bool:
    return run.regret > _WORSE


def _is_held(run: Run) -> bool:
    return run.is_held


def _size(run: Run) -> int:
    return run.size


def _made(run: Run) -> int:
    return run.made


def _promised(every: Sequence[Searched], settings: Settings) -> Iterator[Figure]:
    runs = [run for each in every for run in each.runs]
    how = f"{len(every)} tables x {settings.seeds} searches of at most {settings.most} trials"
    never = {each.name: float(np.mean([_is_never(run) for run in each.runs])) for each in every}
    worst = max(never, key=never.__getitem__)
    yield share_figure("never within 1 %, worst table", never[worst], 3.0, f"{worst}; {how}")
    worse, missing = (float(np.mean([f(run) for run in runs])) for f in (_is_worse, _is_missing))
    yield share_figure("choice worse than 3 %", worse, 1.0, how)
    yield share_figure("optimum not in the answer's set", missing, 5.0, how)
    known = [name for name in _RIVALS if all(len(each.rivals[name]) for each in every)]
    for name in known:
        own, other = (_mean_u(found)[0] for found in _regrets(every, name))
        yield share_figure(
            f"mean regret over that of {name} at twice the trials", own - other, 0.0, how
        )


def _is_missing(run: Run) -> bool:
    return not run.is_held


if __name__ == "__main__":
    print_figures(figures(tyro.cli(Settings)))
