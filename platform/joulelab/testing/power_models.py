"""What every power model keeps to."""

import inspect
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from joulelab.power_models.base import PowerModel
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import Runs

_CLOCKS_MHZ = range(1410, 509, -60)


def runs_by_law(num_applications: int, *, first: int = 0) -> Runs:
    """Return runs on an A100 whose power and time follow a law, at 16 clocks each."""
    rows: list[dict[str, Any]] = []
    for number in range(first, first + num_applications):
        computing = (number % 7 + 1) / 8
        for clock in _CLOCKS_MHZ:
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
    """Tests of one power model.

    Attributes:
        model: The class.
    """

    model: ClassVar[Any]

    @pytest.fixture(params=["power_w", "time_s"])
    def fitted(self, request: pytest.FixtureRequest) -> PowerModel:
        """Return the model, fitted to runs of twelve applications."""
        model: PowerModel = self.model(request.param).fit(runs_by_law(12))
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
