"""Repeats where the decision is open."""

from collections import Counter
from dataclasses import replace
from math import exp
from random import Random

import pytest
from search_surfaces import Surface, large_space, medium_space, problem_on, searched, small_space

from joulelab.errors import ConfigError
from joulelab.searching.answer import answer
from joulelab.searching.base import Outcome
from joulelab.searching.constraints import Constraint
from joulelab.searching.evidence import Evidence
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import standing
from joulelab.searching.strategies import STRATEGIES
from joulelab.searching.strategies.listed import Grid
from joulelab.searching.strategies.model_guided import ModelGuided

FIGURES = Surface(small_space()).figures(small_space().baseline, Random(0))


def race_on(space, constraints=(), **settings):
    problem = problem_on(space, constraints=constraints)
    return Race(problem, Grid(problem), **settings)


def told(evidence, space, place, *, energy_j, u=0.002, board="GPU-1", time_s=1.0, time_u_s=0.0):
    figures = replace(
        FIGURES,
        energy_j=energy_j,
        energy_u_j=energy_j * u,
        time_s=time_s,
        time_u_s=time_u_s,
        latency_s=time_s,
        board=board,
    )
    evidence.add(Outcome(candidate=space[place], figures=figures))


def test_a_clear_winner_is_repeated_once_to_see_how_trials_scatter():
    space = small_space()

    surface = Surface(space, noise=1e-4)

    outcomes = searched(race_on(space), surface, most=100)

    counts = Counter(outcome.candidate for outcome in outcomes)
    assert len(outcomes) == len(space) + 1
    assert counts.most_common(1) == [(surface.best(), 2)]


def test_what_reads_lowest_is_repeated_before_others_are_tried_where_trials_scatter():
    """Of 37 single readings with 6 % of noise the luckiest was the choice."""
    space = medium_space()
    quiet, noisy = (
        searched(race_on(space), Surface(space, noise=noise), most=30) for noise in (1e-3, 0.1)
    )

    counts = [Counter(each.candidate for each in found) for found in (quiet, noisy)]
    assert len(counts[0]) >= 29
    assert max(counts[1].values()) == 5


def test_repeats_go_to_those_that_may_be_the_best_and_never_beyond_the_most():
    space = small_space()
    surface = Surface(space, noise=0.3)
    race = race_on(space, most_repeats=4)

    outcomes = searched(race, surface, most=200)

    counts = Counter(outcome.candidate for outcome in outcomes)
    assert race.is_done
    assert max(counts.values()) == 4
    worst = max(space, key=surface.log_edp)
    assert counts[worst] < 4


def test_a_race_ends_when_what_is_left_to_gain_does_not_matter():
    space = small_space()
    race = race_on(space, most_repeats=50, tolerance=0.03)

    searched(race, Surface(space, noise=0.01), most=400)

    assert race.is_done
    assert race.standing().possible_regret <= 0.03


def test_a_race_finds_the_best_of_a_grid_more_often_than_one_look():
    space = small_space()
    surface, best = Surface(space, noise=0.06), Surface(space).best()
    looks, races = 0, 0
    for seed in range(30):
        race = race_on(space, most_repeats=12, tolerance=0.0)
        outcomes = searched(race, surface, most=200, seed=seed)
        first = min(outcomes[: len(space)], key=lambda o: o.figures.energy_j * o.figures.time_s)
        looks += first.candidate == best
        races += race.standing().best == best

    assert races > looks
    assert races >= 24


def test_the_set_holds_the_truly_best_with_the_stated_confidence():
    space = small_space()
    surface, best = Surface(space, noise=0.05), Surface(space).best()
    held = 0
    for seed in range(40):
        race = race_on(space, most_repeats=3)
        searched(race, surface, most=100, seed=seed)
        held += best in race.standing().members

    assert held >= 35  # of 40, at 95 %: fewer in one of 100 cases


def test_boards_that_differ_are_compared_through_what_they_share():
    space = small_space()
    evidence = Evidence(problem_on(space))
    told(evidence, space, 0, energy_j=1.00)
    told(evidence, space, 0, energy_j=1.10, board="GPU-2")
    told(evidence, space, 1, energy_j=0.95)
    told(evidence, space, 2, energy_j=0.99, board="GPU-2")  # 0.90 on the first board

    assert standing(evidence).best == space[2]


def test_what_may_keep_to_a_limit_and_costs_less_is_repeated_until_that_is_known():
    space = small_space()
    limit = Constraint(quantity="latency_s", bound=1.0)
    evidence = Evidence(problem_on(space, constraints=[limit]))
    told(evidence, space, 0, energy_j=1.0, time_s=0.9)
    told(evidence, space, 1, energy_j=0.5, time_s=0.99, time_u_s=0.01)  # keeps to it with 84 %
    told(evidence, space, 2, energy_j=0.4, time_s=1.2, time_u_s=0.01)

    now = standing(evidence)

    assert now.best == space[0]
    assert now.members == (space[0], space[1])
    assert now.possible_regret > 0.4


def test_nothing_feasible_gives_the_nearest_and_says_so():
    space = small_space()
    limit = Constraint(quantity="latency_s", bound=0.5)
    evidence = Evidence(problem_on(space, constraints=[limit]))
    told(evidence, space, 0, energy_j=0.1, time_s=0.9)
    told(evidence, space, 1, energy_j=1.0, time_s=0.6)

    now = standing(evidence)

    assert now.best == space[1]
    assert not now.is_feasible


def test_nothing_measured_has_no_standing():
    assert standing(Evidence(problem_on(small_space()))) is None


@pytest.mark.parametrize("settings", [{"most_repeats": 0}, {"tolerance": -0.1}])
def test_a_race_without_repeats_or_with_a_negative_tolerance_is_refused(settings):
    with pytest.raises(ConfigError, match="most_repeats"):
        race_on(small_space(), **settings)


def in_turns(race, surface, *, num_trials, at_once, seed=0):
    """Measure with several trials out at once, the baseline first; return the outcomes."""
    random, out = Random(seed), []
    outcomes = [surface.outcome(surface.space.baseline, random)]
    race.tell(outcomes[0])
    while len(outcomes) < num_trials:
        while len(out) < min(at_once, num_trials - len(outcomes)):
            if (asked := race.ask()) is None:
                break
            out.append(asked)
        outcomes.append(surface.outcome(out.pop(0), random))
        race.tell(outcomes[-1])
    return outcomes


@pytest.mark.parametrize("name", ["front-guided", "model-guided", "random"])
@pytest.mark.parametrize(("at_once", "seed"), [(1, 0), (1, 1), (4, 1), (4, 2), (8, 2), (8, 0)])
def test_a_small_budget_ends_with_repeats_of_the_best_and_of_the_knee(name, at_once, seed):
    """With 12 trials a search for a front once measured all of them once, the best as well."""
    space = medium_space()
    problem = problem_on(space)
    race = Race(problem, STRATEGIES[name](problem, seed=seed), num_trials=12)

    in_turns(race, Surface(space, noise=0.005), num_trials=12, at_once=at_once, seed=seed)

    found = answer(race.evidence, spent_j=1.0)
    for choice in (found.best, found.knee):
        assert len(race.evidence.repeats(choice.configuration)) >= 2


def test_a_budget_of_three_trials_is_not_all_for_repeats():
    """Three trials for three configurations once measured the first of them three times."""
    space = SearchSpace("vit", {"batch": (1, 8, 64)})
    race = Race(problem_on(space), STRATEGIES["model-guided"](problem_on(space)), num_trials=3)

    outcomes = in_turns(race, Surface(space, noise=0.005), num_trials=3, at_once=1)

    assert {each.candidate for each in outcomes} == set(space)


def test_the_end_of_a_budget_repeats_no_more_than_it_takes():
    """The last three trials once all went to the best, where one had been enough.

    The one between is the first repeat of the knee, or something new.
    """
    space = large_space()
    surface, problem = Surface(space, noise=0.002), problem_on(space)
    race = Race(problem, STRATEGIES["model-guided"](problem), num_trials=13)
    race.tell(surface.outcome(space.baseline, Random(1)))

    outcomes = in_turns(race, surface, num_trials=12, at_once=1)

    counts = Counter(outcome.candidate for outcome in outcomes)
    last = [outcome.candidate for outcome in outcomes[-3:]]
    knee = answer(race.evidence, spent_j=1.0).knee.configuration
    assert last[0] == last[2] == race.standing().best
    assert last[1] != last[0]  # which was confirmed already
    assert counts[last[1]] == (2 if last[1] == knee else 1)


def test_without_a_bound_of_trials_the_screening_goes_on():
    space = large_space()
    problem = problem_on(space)
    race = Race(problem, STRATEGIES["front-guided"](problem))

    in_turns(race, Surface(space, noise=0.005), num_trials=12, at_once=1)

    assert len(race.evidence.measured) == 11  # one was repeated, to see how trials scatter


class OnBoards(Surface):
    """Measured on 40 boards in turn, which draw more and less by 4 %."""

    num = 0

    def outcome(self, configuration, random):
        found, board = super().outcome(configuration, random), self.num % 40
        self.num += 1
        energy_j = found.figures.energy_j * exp(Random(board).gauss(0.0, 0.04))
        return replace(found, figures=replace(found.figures, board=f"{board}", energy_j=energy_j))


def test_where_many_measure_at_once_the_last_quarter_repeats_what_may_be_the_best():
    """Of 128 trials on 64 GPUs 113 were measured once, and the choice was a lucky board's."""
    space = SearchSpace("vit", {"sm_clock_mhz": range(900, 1200, 2)}, knobs={"batch": 64})
    race, surface = race_on(space, num_trials=80), OnBoards(space, noise=0.003)

    outcomes = in_turns(race, surface, num_trials=80, at_once=40)

    tried = [outcome.candidate for outcome in outcomes]
    assert sum(each in tried[:60] for each in tried[60:]) >= 15


def test_the_end_of_a_budget_keeps_to_the_most_repeats():
    space = small_space()
    race = race_on(space, most_repeats=2, num_trials=6)

    searched(race, Surface(space, noise=1e-4), most=20)

    assert max(len(race.evidence.repeats(each)) for each in space) == 2


def test_a_model_guided_race_ends_with_a_settled_answer_in_a_fraction_of_the_grid():
    space = large_space()
    surface, problem = Surface(space, noise=0.005), problem_on(space)
    race = Race(problem, ModelGuided(problem))

    outcomes = searched(race, surface, most=len(space) // 20, seed=1)

    found = answer(race.evidence, spent_j=1000.0)
    true_energy = surface.truth(found.best.configuration)[0] / surface.truth(space.baseline)[0]
    assert race.is_done
    assert len(outcomes) < len(space) // 20
    assert found.standing.possible_regret <= 0.01
    assert surface.log_edp(found.best.configuration) - surface.log_edp(surface.best()) < 0.01
    assert found.energy_ratio.low < true_energy < found.energy_ratio.high
