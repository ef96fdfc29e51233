"""Searches where the law of time and power fails: it is noticed, and the best is found."""

from dataclasses import dataclass, replace
from math import exp
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from search_surfaces import BATCHES, CLOCKS_MHZ, Surface, large_space, problem_on, searched

from joulelab.searching.answer import answer
from joulelab.searching.evidence import Evidence
from joulelab.searching.model.forecast import Forecaster
from joulelab.searching.model.improvement import Improvements, promising, widest_gap
from joulelab.searching.model.law import Rows
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

NUM_LAWFUL = 2
CLOCKS = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ}, knobs={"batch": 64})


class Contended(Surface):
    """A program whose units wait for each other the less, the lower the clock."""

    def _held(self, configuration, clock_mhz):
        power, time = super()._held(configuration, clock_mhz)
        x = clock_mhz / max(CLOCKS_MHZ)
        return power, time * x * (1 - 0.25 * (1 - max(x, 0.6))) / min(x / 0.6, 1.0) ** 2


class Plateau(Surface):
    """A program that memory bounds down to 62 % of the clock, on a board of linear power."""

    def _held(self, configuration, clock_mhz):
        x = clock_mhz / max(CLOCKS_MHZ)
        return 70 + 130 * x + 60 * max(0.0, x - 0.85), max(1.0, 0.62 / x) ** 1.5


class Stepped(Surface):
    """A program that another algorithm serves above 66 % of the clock, which takes a tenth more."""

    def _held(self, configuration, clock_mhz):
        power, time = super()._held(configuration, clock_mhz)
        return power, time * (1.1 if clock_mhz > 0.66 * max(CLOCKS_MHZ) else 1.0)


class Rough(Surface):
    """A program that takes what it takes at each clock, time and again."""

    def _held(self, configuration, clock_mhz):
        power, time = super()._held(configuration, clock_mhz)
        return power, time * exp(Random(clock_mhz).gauss(0.0, 0.05))


@dataclass
class Loud(Surface):
    """Trials that scatter by ten times as much as they state."""

    def figures(self, configuration, random):
        figures = super().figures(configuration, random)
        return replace(figures, energy_u_j=figures.energy_u_j / 10)


def weight_of_failure(surface, clocks_mhz):
    evidence = Evidence(problem_on(CLOCKS))
    for configuration in CLOCKS:
        if configuration.point.sm_clock_mhz in (None, *clocks_mhz):
            evidence.add(surface.outcome(configuration, Random(1)))
    return Forecaster(evidence).forecast().belief.weights[NUM_LAWFUL:].sum()


@pytest.mark.parametrize("broken", [Contended, Plateau])
def test_residuals_tell_that_the_law_fails(broken):
    measured = CLOCKS_MHZ[::6]

    lawful, lawless = (
        weight_of_failure(kind(CLOCKS, noise=0.003), measured) for kind in (Surface, broken)
    )

    assert lawful < 0.1
    assert lawless > 0.9


def test_repeats_tell_that_each_configuration_goes_its_own_way():
    weights = {}
    for kind in (Surface, Rough):
        surface, evidence, random = (
            kind(CLOCKS, noise=0.002),
            Evidence(problem_on(CLOCKS)),
            Random(1),
        )
        for clock_mhz in CLOCKS_MHZ[:16:3]:
            configuration = next(c for c in CLOCKS if c.point.sm_clock_mhz == clock_mhz)
            for _ in range(3):
                evidence.add(surface.outcome(configuration, random))
        weights[kind] = Forecaster(evidence).forecast().belief.weights[-1]

    assert weights[Surface] < 0.05
    assert weights[Rough] > 0.5


@pytest.mark.parametrize("broken", [Contended, Plateau, Stepped])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_is_found_where_the_law_fails(broken, seed):
    surface = broken(CLOCKS, noise=0.005)
    problem = problem_on(CLOCKS)
    race = Race(problem, ModelGuided(problem), num_trials=40)

    searched(race, surface, most=40, seed=seed)

    chosen = race.standing().best
    assert surface.log_edp(chosen) - surface.log_edp(surface.best()) < 0.01


@pytest.mark.parametrize("broken", [Contended, Rough])
def test_a_search_whose_law_fails_ends_once_nothing_better_is_likely_to_one_percent(broken):
    """Of a recorded grid of batch and limit it ended at up to 5 %, and a fifth of all too early."""
    axes = {"sm_clock_mhz": CLOCKS_MHZ[::6], "batch": BATCHES}
    space = SearchSpace("vit", axes, knobs={"precision": "bf16"})
    strategy = ModelGuided(problem_on(space))

    outcomes = searched(strategy, broken(space, noise=0.005), most=60)

    forecast, tried = strategy.forecast(), [space.index(each.candidate) for each in outcomes]
    best = min(tried, key=forecast.log_cost.__getitem__)
    rest = np.setdiff1d(np.arange(len(space)), tried)
    assert forecast.belief.is_lawless
    assert Improvements(forecast, best, rest).chance_of_any([], forecast.feasible[rest]) <= 0.01


BESIDE_A_STEP_MHZ = {
    *range(510, 900, 30),
    690,
    855,
    885,
    915,
    945,
    975,
    1035,
    1095,
    1140,
    1335,
    1410,
}


def test_a_search_looks_beside_what_reads_lowest_where_the_model_prefers_another():
    """It ended with clocks measured on both sides of the best, next to a step, and not that one."""
    space = SearchSpace(
        "vit", {"sm_clock_mhz": CLOCKS_MHZ, "batch": BATCHES}, knobs={"precision": "bf16"}
    )
    surface, strategy, random = (
        Stepped(space, noise=0.005),
        ModelGuided(problem_on(space)),
        Random(1),
    )
    strategy.tell(surface.outcome(space.baseline, random))
    for each in space:
        clock_mhz, batch = each.point.sm_clock_mhz, dict(each.knobs)["batch"]
        if clock_mhz in (BESIDE_A_STEP_MHZ if batch == 128 else {1005}):
            strategy.tell(surface.outcome(each, random))

    asked = [outcome.candidate for outcome in searched(strategy, surface, most=10)]

    assert surface.best() in asked


@pytest.mark.parametrize("seed", range(3))
def test_the_answer_holds_the_best_where_trials_scatter_more_than_they_state(seed):
    surface = Loud(CLOCKS, noise=0.03)
    problem = problem_on(CLOCKS)
    race = Race(problem, ModelGuided(problem), num_trials=30)

    searched(race, surface, most=30, seed=seed)

    found = answer(race.evidence, spent_j=0.0)
    assert surface.best() in {*found.standing.members, *found.unmeasured}


def line(logs):
    n = len(logs)
    return Rows(
        cell=np.zeros(n, dtype=np.intp),
        ratio=np.exp(logs),
        limit_w=np.full(n, np.inf),
        asked_w=np.full(n, np.inf),
        place=np.column_stack([logs, np.zeros(n)]),
        board=np.zeros(n, dtype=np.intp),
        warmth_k=np.zeros(n),
    )


def test_the_widest_gap_beside_the_choice_is_looked_at_in_its_middle():
    logs = np.linspace(-0.4, 0.0, 41)
    tried = np.isin(np.arange(41), (0, 18, 20, 22, 26, 40))

    place = widest_gap(line(logs), 20, tried, ~tried)

    assert place == 9


def test_nothing_is_looked_at_beside_a_choice_whose_neighbours_are_known():
    logs = np.linspace(-0.2, 0.0, 21)
    tried = np.isin(np.arange(21), (0, 5, 8, 10, 12, 15, 20))

    assert widest_gap(line(logs), 10, tried, ~tried) is None


def test_closer_is_looked_beside_the_choice_where_the_law_fails():
    logs = np.linspace(-0.4, 0.0, 41)
    tried = np.isin(np.arange(41), (0, 6, 11, 16, 18, 20, 22, 24, 29, 35, 40))

    assert widest_gap(line(logs), 20, tried, ~tried) is None
    assert widest_gap(line(logs), 20, tried, ~tried, is_lawless=True) in {13, 14, 26, 27}


def test_of_many_configurations_each_cell_keeps_its_cheapest():
    num_cells, per_cell = 40, 100
    cell = np.repeat(np.arange(num_cells), per_cell)
    cost = np.tile(np.arange(per_cell, dtype=float), num_cells)
    forecast = SimpleNamespace(log_cost=cost, rows=SimpleNamespace(cell=cell))

    places = promising(forecast, np.ones(len(cell), dtype=bool))

    assert len(places) == 1000
    assert (np.bincount(cell[places]) == 25).all()
    assert cost[places].max() == 24


def test_a_suggestion_looks_closely_at_some_of_many_configurations_and_finds_the_best():
    space = large_space()
    surface = Surface(space, noise=0.003)

    outcomes = searched(ModelGuided(problem_on(space)), surface, most=15)

    found = min(surface.log_edp(outcome.candidate) for outcome in outcomes)
    assert len(space) > 1000
    assert found - surface.log_edp(surface.best()) < 0.01
