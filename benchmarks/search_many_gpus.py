#!/usr/bin/env python
"""What a search does with many GPUs that have few trials each.

Usage: python benchmarks/search_many_gpus.py [--num-gpus 64] [--num-trials 128] [--seeds 3]

Simulated grids of clock, batch and format of an A100, whose boards differ as eight V100 do. All
GPUs ask at once, and trials end in any order. No Ray.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp

import numpy as np
import tyro
from figures import Figure, print_figures
from search_surface import SPEC, Surface, simulated

from joulelab.core.trial import Trial
from joulelab.objectives import OBJECTIVES
from joulelab.searching.answer import answer
from joulelab.searching.base import BOARD_POWER_SD, BOARD_TIME_SD, Outcome
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.strategies.model_guided import ModelGuided
from joulelab.study.budget import Budget
from joulelab.study.search_queue import Search, SearchQueue, Sentinel


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Search with many GPUs.

    Attributes:
        num_gpus: GPUs that measure at once.
        num_trials: Trials of a search.
        seeds: Searches of each grid.
        grids: Workloads whose grids are searched.
    """

    num_gpus: int = 64
    num_trials: int = 128
    seeds: int = 3
    grids: tuple[str, ...] = ("vit", "bert", "resnet50")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        num_baselines: Trials that measured the baseline.
        regret: EDP of the choice over the least, less 1.
        is_held: Whether the optimum is in the answer's set, measured or not.
        first_s: Processor time until every GPU had its first two trials.
        ask_s: The longest that a GPU waited for a trial after that.
    """

    num_baselines: int
    regret: float
    is_held: bool
    first_s: float
    ask_s: float


class Fleet:
    """Boards that measure a surface, each a little differently."""

    def __init__(self, surface: Surface, num_gpus: int, seed: int) -> None:
        self._surface, self._random = surface, np.random.default_rng(seed)
        sd = (BOARD_POWER_SD, BOARD_TIME_SD)
        self.boards = {f"GPU-{i}": self._random.normal(0.0, sd) for i in range(num_gpus)}

    def outcome(self, trial: Trial, uuid: str) -> Outcome:
        """Measure a trial on a board."""
        place = self._surface.space.index(trial.configuration)
        found = self._surface.outcome(place, self._random)
        power, time = self.boards[uuid]
        figures = found.figures
        energy = exp(power + time)
        moved = replace(
            figures,
            energy_j=figures.energy_j * energy,
            energy_u_j=figures.energy_u_j * energy,
            time_s=figures.time_s * exp(time),
            time_u_s=figures.time_u_s * exp(time),
            power_w=figures.power_w * exp(power),
            board=uuid,
        )
        return replace(found, figures=moved)

    def any_of(self, out: dict[str, list[Trial]]) -> str:
        """Return which board ends its trial next."""
        return str(self._random.choice([uuid for uuid, trials in out.items() if trials]))


def run(surface: Surface, settings: Settings, seed: int) -> Run:
    """Search a surface with a fleet."""
    problem = Problem(space=surface.space, objective=OBJECTIVES["edp"], gpu=SPEC)
    race = Race(problem, ModelGuided(problem), num_trials=settings.num_trials)
    search = Search(
        study="many",
        strategy=race,
        budget=Budget(num_trials=settings.num_trials),
        sentinel=Sentinel(configuration=problem.space.baseline),
    )
    queue, fleet = SearchQueue(search), Fleet(surface, settings.num_gpus, seed)
    queue.resume([], list(fleet.boards), lambda point: None)
    out: dict[str, list[Trial]] = {uuid: [] for uuid in fleet.boards}
    first_s, ask_s = 0.0, 0.0
    while True:
        start_s = time.process_time()
        for uuid, trials in out.items():
            while len(trials) < 2 and (trial := queue.take(uuid)) is not None:
                trials.append(trial)
        took_s = time.process_time() - start_s
        first_s, ask_s = (first_s, max(ask_s, took_s)) if first_s else (took_s, 0.0)
        if not any(out.values()):
            break
        uuid = fleet.any_of(out)
        trial = out[uuid].pop(0)
        queue.settle(trial, fleet.outcome(trial, uuid))
    found = answer(race.evidence, spent_j=1.0)
    shown = {*found.standing.members, *found.unmeasured}
    baseline = problem.space.baseline
    regret = np.exp(surface.regret) - 1.0
    return Run(
        num_baselines=sum(o.candidate == baseline for o in race.evidence.outcomes),
        regret=float(regret[problem.space.index(found.standing.best)]),
        is_held=any(regret[problem.space.index(each)] < 1e-9 for each in shown),
        first_s=first_s,
        ask_s=ask_s,
    )


def figures(settings: Settings | None = None) -> Iterator[Figure]:
    """Yield the figures; prints every search on the way."""
    settings = settings or Settings()
    runs = []
    for grid in settings.grids:
        for seed in range(settings.seeds):
            runs.append(run(simulated(grid), settings, seed))
            print(grid, seed, runs[-1], flush=True)
    how = f"{len(runs)} searches, {settings.num_gpus} GPUs, {settings.num_trials} trials"
    most = max(each.num_baselines for each in runs)
    yield Figure(name="baselines, most", measured=most, promised=12, unit="trials", how=how)
    regret = 100 * float(np.mean([each.regret for each in runs]))
    yield Figure(name="regret, mean", measured=regret, promised=1.0, unit="%", how=how)
    missed = 100 * float(np.mean([not each.is_held for each in runs]))
    yield Figure(name="optimum not in the set", measured=missed, promised=5.0, unit="%", how=how)
    first_s = max(each.first_s for each in runs)
    yield Figure(name="first trials of all", measured=first_s, promised=10, unit="s", how=how)
    ask_s = max(each.ask_s for each in runs)
    yield Figure(name="longest suggestion", measured=ask_s, promised=0.5, unit="s", how=how)


if __name__ == "__main__":
    print_figures(list(figures(tyro.cli(Settings, description=__doc__))))
