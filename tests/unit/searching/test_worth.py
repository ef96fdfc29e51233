"""What a further point is worth against what points have cost."""

from dataclasses import replace
from random import Random

import pytest
from search_surfaces import Surface, clock_outcome, medium_space, problem_on

from joulelab.searching.evidence import Evidence
from joulelab.searching.race import Race
from joulelab.searching.strategies.model_guided import ModelGuided


def evidence_of(costs, *, horizon_s=3600.0):
    found = Evidence(replace(problem_on(medium_space()), horizon_s=horizon_s))
    baseline = clock_outcome(found.problem.space.baseline)
    for spent_j, spent_s in costs:
        found.add(replace(baseline, spent_j=spent_j, spent_s=spent_s))
    return found


def test_a_gain_must_spare_the_seconds_and_the_joules_of_a_point():
    figures = clock_outcome(medium_space().baseline).figures
    power_w = figures.energy_j / figures.time_s

    by_time = evidence_of([(1.0 * power_w, 3.6)]).least_gain
    by_energy = evidence_of([(7.2 * power_w, 3.6)]).least_gain

    assert (by_time, by_energy) == pytest.approx((1e-3, 2e-3))


def test_what_the_first_point_took_besides_does_not_count():
    costs = [(50.0, 30.0), (1.0, 3.6), (1.0, 3.6)]

    assert evidence_of(costs).least_gain == pytest.approx(1e-3)


def test_the_longer_it_runs_the_less_a_gain_must_be():
    costs = [(1.0, 3.6)]

    short, long = (evidence_of(costs, horizon_s=h).least_gain for h in (60.0, 6000.0))

    assert short == pytest.approx(100 * long)


def test_without_a_ledger_nothing_is_known():
    assert evidence_of([(None, None)]).least_gain == 0.0
    assert evidence_of([]).least_gain == 0.0


@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_for_a_minute_of_use_ends_sooner_than_one_for_a_day(seed):
    made = {}
    for horizon_s in (60.0, 86400.0):
        space = medium_space()
        problem = replace(problem_on(space), horizon_s=horizon_s)
        race, surface, random = Race(problem, ModelGuided(problem)), Surface(space), Random(seed)
        while len(race.evidence.outcomes) < 60 and (asked := race.ask()) is not None:
            outcome = surface.outcome(asked, random)
            power_w = outcome.figures.energy_j / outcome.figures.time_s
            race.tell(replace(outcome, spent_j=2.0 * power_w, spent_s=2.0))
        made[horizon_s] = len(race.evidence.outcomes)

    assert made[60.0] < made[86400.0]
