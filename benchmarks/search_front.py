#!/usr/bin/env python
"""How much of the front of energy, time and quality searches find with a tenth of the trials.

Usage: python benchmarks/search_front.py [--seeds 20] [--surfaces vit bert resnet50]

Every search gets the same simulated surfaces, those of ``search_regret.py``, and the same noise by
seed. What formats keep of the quality is assumed, and known before, as a search evaluates it once;
that of a batch is that of its format. The hypervolume is that of the front that a search would
show by its readings, at the true values of what is on it: logarithms of energy, time and quality
over their ranges on the true front, up to a tenth beyond it.
Needs moocore. TPE and NSGA-II are Ray Tune's.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from time import process_time

import numpy as np
import tyro
from figures import Figure, print_figures
from rich.console import Console
from rich.table import Table
from search_surface import PRECISIONS, SPEC, Surface, simulated

from joulelab.core.comparison import non_dominated
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Outcome
from joulelab.searching.evidence import Kept, Problem
from joulelab.searching.space import Cell
from joulelab_actors.tune.algorithms import algorithm

RETENTION = {"fp32": 1.0, "tf32": 0.9995, "fp16": 0.999, "bf16": 0.997, "int8": 0.985}
"""Assumed of each format."""
RETENTION_U = 0.0005
SEARCHES = ("random", "tpe", "nsga2", "model-guided", "front-guided")
_SHARE = 0.1
_AT = (0.025, 0.05, 0.1)
_WANTED = 0.99
_MARGIN = 0.1
_CONSOLE = Console(width=140)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Compare searches for fronts.

    Attributes:
        seeds: How often each search is run on each surface.
        surfaces: Networks on a simulated A100.
        searches: Algorithms.
    """

    seeds: int = 20
    surfaces: tuple[str, ...] = tuple(PRECISIONS)
    searches: tuple[str, ...] = SEARCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        surface: What was searched.
        search: What searched.
        shares: Hypervolume over that of the true front, after each share of the grid in ``_AT``.
        needed: Share of the grid until 99 % of it; infinite if a tenth was not enough.
        made: Trials that it made.
        longest_s: Most time of a processor that it took to say what comes next.
    """

    surface: str
    search: str
    shares: tuple[float, ...]
    needed: float
    made: int
    longest_s: float


class Volume:
    """The hypervolume of configurations, over that of the true front.

    Args:
        costs: True logarithms of energy and time, and of quality lost; shape ``(n, 3)``.
    """

    def __init__(self, costs: np.ndarray) -> None:
        front = costs[non_dominated(costs)]
        low, high = front.min(axis=0), front.max(axis=0)
        self._costs = (costs - low) / (high - low)
        self.size = len(front)
        self._whole = 1.0
        self._whole = self.share(list(np.flatnonzero(non_dominated(costs))))

    def share(self, places: Sequence[int]) -> float:
        """Return the share that the configurations at ``places`` dominate."""
        import moocore

        reference = np.full(3, 1.0 + _MARGIN)
        return float(moocore.hypervolume(self._costs[list(places)], ref=reference)) / self._whole


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return the figures; prints the comparison on the way."""
    settings = settings or Settings()
    surfaces = [simulated(workload) for workload in settings.surfaces]
    tasks = [(s, a, n) for s in surfaces for a in settings.searches for n in range(settings.seeds)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(_run, tasks, chunksize=2))
    _print_runs(runs, settings)
    return _promised(runs, settings)


def _run(task: tuple[Surface, str, int]) -> Run:
    surface, search, seed = task
    volume, random = Volume(_true_costs(surface)), np.random.default_rng(seed)
    problem = _problem(surface)
    strategy = algorithm(search)(problem, seed=seed)
    most = int(_SHARE * len(surface.space))
    places: list[int] = []
    readings: list[list[float]] = []
    shares: list[float] = []
    longest_s = 0.0
    for _ in range(most):
        start_s = process_time()
        asked = strategy.ask()
        longest_s = max(longest_s, process_time() - start_s)
        if asked is None:
            break
        place = surface.space.index(asked)
        outcome = _outcome(surface, problem, place, random)
        strategy.tell(outcome)
        places.append(place)
        readings.append(_reading(outcome))
        shown = non_dominated(np.array(readings))
        shares.append(volume.share([p for p, on in zip(places, shown, strict=True) if on]))
    size = len(surface.space)
    reached = [number for number, share in enumerate(shares, start=1) if share >= _WANTED]
    return Run(
        surface=surface.space.workload,
        search=search,
        shares=tuple(shares[min(int(at * size), len(shares)) - 1] for at in _AT),
        needed=reached[0] / size if reached else float("inf"),
        made=len(shares),
        longest_s=longest_s,
    )


def _problem(surface: Surface) -> Problem:
    qualities: dict[Cell, Kept] = {}
    for cell in surface.space.cells:
        name = str(dict(cell)["precision"])
        u = RETENTION_U if RETENTION[name] < 1 else None
        qualities[cell] = Kept(retention=RETENTION[name], u=u, outputs=name)
    return Problem(space=surface.space, objective=OBJECTIVES["qep"], gpu=SPEC, qualities=qualities)


def _outcome(
    surface: Surface, problem: Problem, place: int, random: np.random.Generator
) -> Outcome:
    outcome = surface.outcome(place, random)
    kept = problem.qualities[outcome.candidate.knobs]
    figures = replace(outcome.figures, retention=kept.retention, retention_u=kept.u)
    return replace(outcome, figures=figures)


def _reading(outcome: Outcome) -> list[float]:
    figures = outcome.figures
    return [np.log(figures.energy_j), np.log(figures.time_s), -np.log(figures.retention)]


def _true_costs(surface: Surface) -> np.ndarray:
    kept = [RETENTION[str(dict(each.knobs)["precision"])] for each in surface.space]
    return np.column_stack([np.log(surface.energy_j), np.log(surface.time_s), -np.log(kept)])


def _print_runs(runs: Sequence[Run], settings: Settings) -> None:
    table = Table(
        *("surface", "search"),
        *(f"{at:.1%} of the grid: mean, worst" for at in _AT),
        *("share until 99 %: mean", "p95", "never", "trials", "longest ask"),
        title="Hypervolume over that of the true front, simulated A100, 61 x 6 x 4",
    )
    for surface in settings.surfaces:
        for search in settings.searches:
            own = [r for r in runs if (r.surface, r.search) == (surface, search)]
            table.add_row(surface, search, *_cells(own))
    _CONSOLE.print(table)


def _cells(own: Sequence[Run]) -> list[str]:
    shares = np.array([run.shares for run in own])
    needed = np.array([run.needed for run in own])
    return [
        *(f"{shares[:, n].mean():.1%}, {shares[:, n].min():.1%}" for n in range(len(_AT))),
        f"{needed.mean():.1%}",
        f"{np.quantile(needed, 0.95, method='higher'):.1%}",
        f"{np.isinf(needed).mean():.0%}",
        f"{np.mean([run.made for run in own]):.0f}",
        f"{max(run.longest_s for run in own) * 1e3:.0f} ms",
    ]


def _promised(runs: Sequence[Run], settings: Settings) -> list[Figure]:
    own = [run for run in runs if run.search == "front-guided"]
    if not own:
        return []
    missing = [100 * (1 - run.shares[-1]) for run in own]
    how = f"{len(own)} searches of {', '.join(settings.surfaces)}; simulated A100, 10 % of the grid"
    return [
        Figure(name=f"{name} of the hypervolume that is missed", measured=value, promised=1.0,
               unit="%", how=how)
        for name, value in (
            ("mean", float(np.mean(missing))),
            ("p95", float(np.quantile(missing, 0.95))),
            ("worst", float(np.max(missing))),
        )
    ]  # fmt: skip


if __name__ == "__main__":
    if importlib.util.find_spec("moocore") is None:
        sys.exit("The hypervolume is moocore's: pip install moocore.")
    print_figures(figures(tyro.cli(Settings)))
