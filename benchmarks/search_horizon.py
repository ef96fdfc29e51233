#!/usr/bin/env python
"""When searches end, by how long what they find will run, and what that is worth.

Usage: python benchmarks/search_horizon.py [--seeds 2] [--horizons-h 24 1 0.1 0.02]

Searches of clock, batch and format of networks on simulated boards that depart from the catalogue
(as in calibrated_boards.py) end by themselves. Points take 2.2 s at their power, as quick ones do.
Net are the joules of a search and those that its regret of EDP costs while the choice runs.
"""

from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import tyro
from calibrated_boards import BATCHES, SEARCHED, planted
from search_surface import Surface, surface_of

from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import EDP
from joulelab.searching.evidence import Problem
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

POINT_S = 2.2
_MOST = 80


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is searched.

    Attributes:
        products: Catalogue keys of the boards.
        seeds: Boards of each.
        horizons_h: Hours for which a choice runs.
    """

    products: tuple[str, ...] = ("a100_sxm", "h200_sxm")
    seeds: int = 2
    horizons_h: tuple[float, ...] = (24.0, 1.0, 0.1, 0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A search that has ended: what it took, its regret, and the power of its choice."""

    trials: int
    energy_j: float
    regret: float
    power_w: float

    def net_j(self, horizon_h: float) -> float:
        """Return what it took and what its regret costs over a time."""
        return self.energy_j + self.regret * self.power_w * 3600 * horizon_h


def main(settings: Settings) -> None:
    """Print a line for each horizon."""
    cases = list(surfaces(settings))
    for horizon_h in settings.horizons_h:
        found = [searched(*case, horizon_h) for case in cases]
        nets = ", ".join(
            f"{fmean(each.net_j(h) for each in found) / 1e3:.1f} over {h:g} h"
            for h in settings.horizons_h
        )
        print(
            f"{horizon_h:g} h: {fmean(each.trials for each in found):.1f} trials, "
            f"{fmean(each.energy_j for each in found) / 1e3:.1f} kJ, regret "
            f"{fmean(each.regret for each in found):.3%}, worst "
            f"{max(each.regret for each in found):.2%}; net kJ {nets} ({len(found)} searches)",
            flush=True,
        )


def surfaces(settings: Settings) -> list[tuple[str, Surface, int]]:
    """Return what is searched: product, surface, seed."""
    return [
        (product, surface_of(_space(product, name), planted(GPUS[product], random)), seed)
        for product in settings.products
        for name in SEARCHED
        for seed in range(settings.seeds)
        for random in [np.random.default_rng([seed, 2])]
    ]


def _space(product: str, workload: str) -> SearchSpace:
    clocks_mhz, formats = GPUS[product].study_clocks_mhz, SEARCHED[workload]
    axes = {"sm_clock_mhz": clocks_mhz, "batch": BATCHES, "precision": formats}
    return SearchSpace(workload, axes)


def searched(product: str, surface: Surface, seed: int, horizon_h: float) -> Ended:
    """Search until the search itself ends."""
    space, random = surface.space, np.random.default_rng(seed)
    gpu, horizon_s = GPUS[product], 3600 * horizon_h
    problem = Problem(space=space, objective=EDP, gpu=gpu, horizon_s=horizon_s)
    race, energy_j = Race(problem, ModelGuided(problem)), 0.0
    power_w = np.array(surface.energy_j) / np.array(surface.time_s)
    while len(race.evidence.outcomes) < _MOST and (asked := race.ask()) is not None:
        place = space.index(asked)
        outcome = surface.outcome(place, random)
        spent_j = POINT_S * float(power_w[place])
        energy_j += spent_j
        race.tell(replace(outcome, spent_j=spent_j, spent_s=POINT_S))
    now = race.standing()
    chosen = 0 if now is None else space.index(now.best)
    return Ended(
        trials=len(race.evidence.outcomes),
        energy_j=energy_j,
        regret=float(np.expm1(surface.regret[chosen])),
        power_w=float(power_w[chosen]),
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
