"""What every power model and every strategy of a search keeps to."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from joulelab.core.configuration import Configuration
from joulelab.objectives import OBJECTIVES
from joulelab.power_models.base import PowerModel
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import Runs
from joulelab.searching.base import Figures, Outcome, Strategy
from joulelab.searching.evidence import Problem
from joulelab.searching.space import SearchSpace

Make = Callable[[], Strategy]
_CLOCKS_MHZ = (1410, 1110, 810, 510)


def runs_by_law(num_applications: int, *, first: int = 0) -> Runs:
    """Return runs on an A100 whose power and time follow a law, at 16 clocks each."""
    rows: list[dict[str, Any]] = []
    for number in range(first, first + num_applications):
        computing = (number % 7 + 1) / 8
        for clock in range(1410, 509, -60):
            x = clock / 1410
            rows.append(
                {
                    "gpu": "a100_sxm",
                    "application": f"application {number}",
                    "sm_clock_mhz": float(clock),
                    "power_w": 70 + (60 + 220 * computing) * x**2,
                    "time_s": 1.0 + number / 10 + computing * (1 / x - 1),
                    "fp_active": 0.8 * computing,
                    "dram_active": 0.8 * (1 - computing),
                    "tensor_active": 0.0,
                    "sm_active": 0.9,
                }
            )
    return runs_of_rows(rows)


class PowerModelContract:
    """Tests of one power model."""

    model: ClassVar[Any]  # the class

    @pytest.fixture(scope="class", params=["power_w", "time_s"])
    @classmethod
    def fitted(cls, request: pytest.FixtureRequest) -> PowerModel:
        """Return the model, fitted to runs of twelve applications."""
        model: PowerModel = cls.model(request.param).fit(runs_by_law(12))
        return model

    def test_it_is_whole(self) -> None:
        """Nothing that is called is missing, and its name can be looked up."""
        assert issubclass(self.model, PowerModel)
        assert not inspect.isabstract(self.model)
        assert self.model.name

    def test_predictions_are_positive_and_one_per_query(self, fitted: PowerModel) -> None:
        """Of applications that it has not seen."""
        unseen = runs_by_law(2, first=20)

        predicted = fitted.predict(queries_of(unseen))

        assert predicted.shape == (len(unseen),)
        assert (predicted > 0).all()

    def test_each_query_is_answered_by_itself(self, fitted: PowerModel) -> None:
        """Whatever is asked beside it, in whatever order."""
        queries = queries_of(runs_by_law(2, first=20))
        backwards = np.arange(len(queries))[::-1]

        predicted = fitted.predict(queries)

        assert fitted.predict(queries.select(backwards)) == pytest.approx(
            predicted[backwards], rel=1e-6
        )

    def test_fitting_twice_gives_the_same(self, fitted: PowerModel) -> None:
        """All that is random hangs on its seed."""
        queries = queries_of(runs_by_law(2, first=20))

        again = self.model(fitted.target).fit(runs_by_law(12))

        assert again.predict(queries) == pytest.approx(fitted.predict(queries), rel=1e-9)

    def test_it_can_be_saved(self, fitted: PowerModel, tmp_path: Path) -> None:
        """Into a folder without pickles; a registered name loads it again."""
        fitted.save(tmp_path / "model")

        assert any((tmp_path / "model").iterdir())
        assert not list((tmp_path / "model").glob("*.pkl"))


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
    """Tests of one strategy."""

    strategy: ClassVar[Any]  # the class; made of a problem and a seed

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
