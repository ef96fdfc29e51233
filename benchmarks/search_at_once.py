#!/usr/bin/env python
"""What a search loses that asks for several trials at once rather than for one after the other.

Usage: python benchmarks/search_at_once.py [--at-once 1 8 32 128] [--seeds 4] [--only vit]

The surfaces are those of ``search_regret.py``, and so is the noise. So many trials are out, of
which any ends next; once a quarter ended, as many are asked for, as a study over many GPUs does.
They read as on one board: that boards differ, ``search_many_gpus.py`` shows. Every search goes on
until nothing is worth a trial any longer. No Ray.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
import tyro
from figures import Figure, print_figures, share_figure
from search_surface import PRECISIONS, SPEC, Surface, simulated

from joulelab.core.configuration import Configuration
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import cost_of
from joulelab.searching.evidence import Problem
from joulelab.searching.strategies.model_guided import ModelGuided

_EDP = OBJECTIVES["edp"]
_WITHIN = 0.01


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Ask for several trials at once.

    Attributes:
        at_once: How many are out at once; the first is what others are compared with.
        seeds: How often each surface is searched.
        only: Search surfaces whose name has this in it.
    """

    at_once: tuple[int, ...] = (1, 8, 32, 128)
    seeds: int = 4
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        trials: Trials that ended until the one that read least was truly within 1 % of the least
            EDP; infinite if it never was.
        made: Trials of the whole search.
        regret: EDP of what reads least in the end over the least, less 1.
        took_s: Processor time of the strategy for a trial.
    """

    trials: float
    made: int
    regret: float
    took_s: float


def search(surface: Surface, at_once: int, seed: int) -> Run:
    """Search a surface with so many trials out at once."""
    strategy = ModelGuided(Problem(space=surface.space, objective=_EDP, gpu=SPEC))
    random, regrets = np.random.default_rng(seed), np.expm1(surface.regret)
    out: list[Configuration] = []
    within, made, lowest, regret, took_s = inf, 0, inf, inf, 0.0
    while True:
        begun_s = time.process_time()
        if len(out) <= at_once - at_once // 4:
            while len(out) < at_once and (asked := strategy.ask()) is not None:
                out.append(asked)
        took_s += time.process_time() - begun_s
        if not out:
            return Run(trials=within, made=made, regret=regret, took_s=took_s / made)
        place = surface.space.index(out.pop(int(random.integers(len(out)))))
        outcome = surface.outcome(place, random)
        strategy.tell(outcome)
        made += 1
        if outcome.figures and (cost := cost_of(_EDP, outcome.figures).log) < lowest:
            lowest, regret = cost, float(regrets[place])
            within = min(within, made) if regret <= _WITHIN else within


def figures(settings: Settings | None = None) -> Iterator[Figure]:
    """Yield the figures; prints on the way what each number of trials at once comes to."""
    settings = settings or Settings()
    surfaces = [simulated(name) for name in PRECISIONS if settings.only in name]
    first: list[Run] = []
    for at_once in settings.at_once:
        runs = [search(each, at_once, s) for each in surfaces for s in range(settings.seeds)]
        first = first or runs
        trials, made = (np.array([getattr(r, n) for r in runs]) for n in ("trials", "made"))
        regret = [run.regret for run in runs]
        how = (
            f"{len(runs)} searches of {', '.join(each.space.workload for each in surfaces)}; "
            f"trials until within {_WITHIN:.0%} {trials.mean():.1f} (most {trials.max():.0f}), "
            f"made {made.mean():.1f} ({np.mean([r.made for r in first]):.1f} with "
            f"{settings.at_once[0]}), worst regret {max(regret):.2%}"
        )
        print(at_once, how, flush=True)
        yield share_figure(f"{at_once} at once: final regret of EDP, mean", np.mean(regret), 1, how)
        yield Figure(
            name=f"{at_once} at once: processor time of the strategy for a trial",
            measured=1e3 * float(np.mean([run.took_s for run in runs])),
            promised=100.0,
            unit="ms",
            how=how,
        )


if __name__ == "__main__":
    print_figures(list(figures(tyro.cli(Settings, description=__doc__))))
