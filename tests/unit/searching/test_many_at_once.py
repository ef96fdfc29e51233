"""Searches with many trials out at once: beliefs are formed anew once enough came in."""

from itertools import pairwise
from random import Random

import pytest
from search_surfaces import Surface, large_space, problem_on

from joulelab.searching.base import Outcome
from joulelab.searching.model.forecast import Forecaster
from joulelab.searching.strategies import STRATEGIES


@pytest.fixture
def forecasts(monkeypatch):
    """Number the forecasts that are made."""
    made, forecast = [], Forecaster.forecast

    def counted(self):
        made.append(len(self._evidence.outcomes))
        return forecast(self)

    monkeypatch.setattr(Forecaster, "forecast", counted)
    return made


@pytest.fixture(params=["model-guided", "front-guided"])
def strategy(request):
    return STRATEGIES[request.param](problem_on(large_space()))


def test_one_trial_at_a_time_each_outcome_is_heeded(forecasts, strategy):
    surface = Surface(large_space(), noise=0.005)
    for _ in range(6):
        strategy.tell(surface.outcome(strategy.ask(), Random(0)))

    assert forecasts == [1, 2, 3, 4, 5]


def test_of_many_trials_that_are_out_an_eighth_of_the_outcomes_is_awaited(forecasts, strategy):
    """Else each of 32 outcomes had a model fitted, that none of the other 31 knew of."""
    surface, random = Surface(large_space(), noise=0.005), Random(0)
    out = [strategy.ask() for _ in range(16)]
    for _ in range(12):
        strategy.tell(surface.outcome(out.pop(0), random))
        out.append(strategy.ask())

    assert [b - a for a, b in pairwise(forecasts)] == [2, 2, 2, 2, 2]
    assert len(set(out)) == len(out)


def test_at_the_end_as_many_outcomes_are_awaited_as_before_and_the_last(forecasts, strategy):
    """Else each of the last seven had a model fitted, the dearest ones of a search."""
    surface, random = Surface(large_space(), noise=0.005), Random(0)
    out = [strategy.ask() for _ in range(16)]
    while out:
        strategy.tell(surface.outcome(out.pop(0), random))
        if len(out) < 7:
            strategy.forecast()

    assert forecasts == [10, 12, 14, 16]


def test_a_trial_that_fails_is_heeded_at_once(forecasts, strategy):
    surface, random = Surface(large_space(), noise=0.005), Random(0)
    out = [strategy.ask() for _ in range(16)]
    strategy.tell(surface.outcome(out.pop(0), random))
    strategy.ask()

    strategy.tell(Outcome(candidate=out[0], reason="It did not run."))
    strategy.ask()

    assert forecasts == [1, 2]


def test_a_search_of_many_at_once_ends_with_everything_heeded(forecasts, strategy):
    surface, random = Surface(large_space(), noise=0.005), Random(0)
    out = [strategy.ask() for _ in range(16)]
    while out:
        strategy.tell(surface.outcome(out.pop(random.randrange(len(out))), random))
        while len(out) < 16 and (asked := strategy.ask()) is not None:
            out.append(asked)

    assert strategy.is_done
    assert forecasts[-1] == len(strategy.evidence.outcomes)
    found = min(strategy.evidence.measured, key=surface.log_edp)
    assert surface.log_edp(found) - surface.log_edp(surface.best()) < 0.01
