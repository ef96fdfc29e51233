"""Searches of recordings, each of which is one observation, however often it is played."""

from collections import Counter, defaultdict
from dataclasses import replace
from math import inf
from random import Random

import numpy as np
import pytest
from search_surfaces import CLOCKS_MHZ, Surface, problem_on, searched

from joulelab.analysis.search_wording import sentence
from joulelab.searching.answer import answer
from joulelab.searching.course import Course
from joulelab.searching.evidence import Evidence
from joulelab.searching.race import Race
from joulelab.searching.space import SearchSpace
from joulelab.searching.standing import standing
from joulelab.searching.strategies.listed import Grid
from joulelab.searching.strategies.model_guided import ModelGuided


class Recorded(Surface):
    """A surface of which a few rows are recorded for each configuration, and played in turn."""

    def __init__(self, clocks_mhz, *, sd, seed=0, rows=1):
        super().__init__(SearchSpace("vit", {"sm_clock_mhz": clocks_mhz, "batch": (16,)}))
        random = np.random.default_rng(seed)
        self._factors = np.exp(random.normal(0.0, sd, (len(self.space), rows)))
        self._turn = defaultdict(int)

    def outcome(self, configuration, random):
        place, rows = self.space.index(configuration), self._factors.shape[1]
        row = self._turn[place] % rows
        self._turn[place] += 1
        found = super().outcome(configuration, random)
        energy_j = found.figures.energy_j * self._factors[place, row]
        figures = replace(found.figures, energy_j=energy_j, recording=f"table.csv:{place}-{row}")
        return replace(found, figures=figures)


def race_on(surface, **settings):
    problem = problem_on(surface.space)
    return Race(problem, Grid(problem), **settings)


def counted(outcomes):
    return Counter(outcome.candidate for outcome in outcomes)


def test_a_recording_that_is_played_again_changes_nothing_but_the_number_of_trials():
    """Of 40 trials of a table with a row for each clock every other clock was worse."""
    surface = Recorded(CLOCKS_MHZ[::4], sd=0.02)
    evidence, course = Evidence(problem_on(surface.space)), Course(problem_on(surface.space))
    for each in [*surface.space, *surface.space]:
        outcome = surface.outcome(each, Random(0))
        evidence.add(outcome)
        course.add(outcome, spent_j=1.0)
    once, half = Evidence(evidence.problem), len(surface.space)
    for outcome in evidence.outcomes[:half]:
        once.add(outcome)

    assert standing(evidence) == standing(once)
    assert len(standing(evidence).members) > 1
    assert len(evidence.repeats(surface.space.baseline)) == 1
    assert len(evidence.outcomes) == 2 * half
    assert course.steps[-1].best_cost_ratio == course.steps[half - 1].best_cost_ratio


def test_what_has_no_further_recording_is_played_again_once_in_a_whole_search():
    surface = Recorded(CLOCKS_MHZ[::4], sd=0.03)

    counts = counted(searched(race_on(surface), surface, most=100))

    assert counts.total() == len(surface.space) + 1
    assert max(counts.values()) == 2


def test_recorded_repeats_are_all_played_where_they_decide():
    surface = Recorded(CLOCKS_MHZ[::4], sd=0.1, rows=3)
    race = race_on(surface)

    counts = counted(searched(race, surface, most=200))

    assert max(counts.values()) in {3, 4}
    assert max(len(race.evidence.repeats(each)) for each in surface.space) == 3
    assert race.standing().scatter == pytest.approx(0.1, rel=0.5)


def test_sets_hold_the_best_clock_though_each_was_recorded_once():
    held = []
    for seed in range(100):
        surface = Recorded(CLOCKS_MHZ[::4], sd=0.01, seed=seed)
        race = race_on(surface)
        searched(race, surface, most=100)
        held.append(surface.best() in race.standing().members)

    assert np.mean(held) >= 0.95


def test_few_recordings_give_an_answer_without_intervals_that_says_so():
    surface = Recorded(CLOCKS_MHZ[::20], sd=0.01)
    race = race_on(surface)
    searched(race, surface, most=20)

    found = answer(race.evidence, spent_j=1.0)

    assert found.standing.is_open
    assert set(found.standing.members) == set(surface.space)
    assert found.energy_ratio.high == inf
    assert found.pays_after is None
    words = sentence(found, race.evidence.problem)
    assert "so few recordings do not show how they scatter" in words
    assert "\N{PLUS-MINUS SIGN}" not in words


def test_a_model_is_no_surer_of_recordings_that_are_played_again():
    surface = Recorded(CLOCKS_MHZ[::4], sd=0.02)
    once, often = (ModelGuided(problem_on(surface.space)) for _ in range(2))
    for each in list(surface.space)[::3]:
        outcome = surface.outcome(each, Random(0))
        once.tell(outcome)
        for _ in range(4):
            often.tell(outcome)

    assert often.equals() == once.equals()
