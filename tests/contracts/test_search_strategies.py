"""What every strategy of a search keeps to; registering one is how it gets tested."""

import inspect
from random import Random

import pytest
from search_surfaces import Surface, problem_on, searched, small_space

from joulelab.search.base import Outcome, Strategy
from joulelab.search.strategies import STRATEGIES

EVERY = pytest.mark.parametrize("name", sorted(STRATEGIES))


@EVERY
def test_a_strategy_is_whole(name):
    strategy = STRATEGIES[name]

    assert issubclass(strategy, Strategy)
    assert not inspect.isabstract(strategy)


@EVERY
def test_the_baseline_comes_first(name):
    space = small_space()

    assert STRATEGIES[name](problem_on(space), seed=3).ask() == space.baseline


@EVERY
def test_a_strategy_asks_for_nothing_twice_and_comes_to_an_end(name):
    space = small_space()
    strategy = STRATEGIES[name](problem_on(space), seed=3)

    outcomes = searched(strategy, Surface(space, noise=0.003), most=len(space) + 1)

    asked = [outcome.candidate for outcome in outcomes]
    assert len(set(asked)) == len(asked) <= len(space)
    assert strategy.is_done


@EVERY
def test_several_can_be_out_at_once_and_are_told_in_any_order(name):
    space = small_space()
    strategy, surface = STRATEGIES[name](problem_on(space), seed=3), Surface(space)

    first = [strategy.ask() for _ in range(3)]
    assert len(set(first)) == 3
    assert not strategy.is_done
    for configuration in reversed(first):
        strategy.tell(surface.outcome(configuration, Random(0)))

    assert strategy.ask() not in first


@EVERY
def test_a_search_goes_on_from_stored_outcomes_as_if_it_had_never_stopped(name):
    space = small_space()
    surface, problem = Surface(space, noise=0.003), problem_on(space)
    whole = searched(STRATEGIES[name](problem, seed=3), surface, most=6)

    resumed = STRATEGIES[name](problem, seed=3)
    for outcome in whole[:4]:
        resumed.tell(outcome)

    assert resumed.ask() == whole[4].candidate


@EVERY
def test_failed_trials_stop_no_search(name):
    space = small_space()
    strategy, surface = STRATEGIES[name](problem_on(space), seed=3), Surface(space)
    failing = set(list(space)[::3])

    for _ in range(3 * len(space)):
        asked = strategy.ask()
        if asked is None:
            break
        failed = Outcome(candidate=asked, reason="another process on the GPU")
        strategy.tell(failed if asked in failing else surface.outcome(asked, Random(0)))

    assert strategy.is_done
