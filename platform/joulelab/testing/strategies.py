"""What every strategy of a search keeps to."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from joulelab.core.configuration import Configuration
from joulelab.objectives import OBJECTIVES
from joulelab.searching.base import Figures, Outcome, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace

Make = Callable[[], Strategy]
_CLOCKS_MHZ = (1410, 1110, 810, 510)


def small_problem() -> Problem:
    """Return a problem of eight configurations and the baseline."""
    space = SearchSpace("vit", {"sm_clock_mhz": _CLOCKS_MHZ, "batch": (1, 64)})
    return Problem(space=space, objective=OBJECTIVES["edp"])


def outcome_of(configuration: Configuration) -> Outcome:
    """Return what a configuration costs on a board that draws 80 W when it does nothing."""
    clock = (configuration.point.sm_clock_mhz or max(_CLOCKS_MHZ)) / max(_CLOCKS_MHZ)
    time_s = 1e-3 / clock + 8e-3 / float(str(dict(configuration.knobs)["batch"]))
    power_w = 80 + 260 * clock**2
    figures = Figures(
        energy_j=power_w * time_s,
        energy_u_j=3e-3 * power_w * time_s,
        time_s=time_s,
        time_u_s=0.0,
        power_w=power_w,
        board="GPU-1",
    )
    return Outcome(candidate=configuration, figures=figures)


class StrategyContract:
    """Tests of one strategy.

    Attributes:
        strategy: The class; made of a problem and a ``seed``.
    """

    strategy: ClassVar[Any]

    @pytest.fixture
    def make(self) -> Make:
        """Return what makes the strategy that is tested, alike each time."""
        return lambda: self.strategy(small_problem(), seed=3)

    def test_it_is_whole(self, make: Make) -> None:
        """Nothing that a search calls is missing."""
        assert isinstance(make(), Strategy)
        assert not inspect.isabstract(type(make()))

    def test_the_baseline_comes_first(self, make: Make) -> None:
        """Everything is compared with it."""
        assert make().ask() == small_problem().space.baseline

    def test_it_asks_for_nothing_twice_and_comes_to_an_end(self, make: Make) -> None:
        """Repeats are the race's business."""
        strategy, asked = make(), list[Configuration]()
        while len(asked) <= len(small_problem().space) and (each := strategy.ask()) is not None:
            asked.append(each)
            strategy.tell(outcome_of(each))

        assert len(set(asked)) == len(asked) <= len(small_problem().space)
        assert strategy.is_done

    def test_several_can_be_out_at_once_and_end_in_any_order(self, make: Make) -> None:
        """Every GPU has one under way and one waiting."""
        strategy = make()

        first = [each for each in (strategy.ask() for _ in range(3)) if each is not None]
        assert len(set(first)) == 3
        assert not strategy.is_done
        for configuration in reversed(first):
            strategy.tell(outcome_of(configuration))

        assert strategy.ask() not in first

    def test_it_goes_on_from_stored_outcomes_as_if_it_had_never_stopped(self, make: Make) -> None:
        """A search that was killed goes on from its results folder."""
        whole, asked = make(), list[Configuration]()
        while len(asked) < 5 and (each := whole.ask()) is not None:
            asked.append(each)
            whole.tell(outcome_of(each))

        resumed = make()
        for configuration in asked[:-1]:
            resumed.tell(outcome_of(configuration))

        assert resumed.ask() == asked[-1]

    def test_failed_trials_stop_no_search(self, make: Make) -> None:
        """A trial may fail, at whatever configuration."""
        strategy, space = make(), small_problem().space
        failing = set(list(space)[::3])

        for _ in range(3 * len(space)):
            if (asked := strategy.ask()) is None:
                break
            failed = Outcome(candidate=asked, reason="another process on the GPU")
            strategy.tell(failed if asked in failing else outcome_of(asked))

        assert strategy.is_done
