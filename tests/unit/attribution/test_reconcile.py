"""Prices and the meter brought together."""

import numpy as np
import pytest

from joulelab.attribution.prices import Run, Solution, reconcile
from joulelab.errors import ConfigError


def prior(prices, u):
    return Solution(prices=np.array(prices), covariance=np.diag(np.square(u)))


def run(weights, energy_j, energy_u_j=1e-3):
    return Run(weights=np.array(weights), energy_j=energy_j, energy_u_j=energy_u_j)


def test_the_parts_sum_to_the_meter_and_the_unsure_part_moves_most():
    found = reconcile(prior([1.0, 1.0], [0.01, 0.1]), (run([1.0, 1.0], 2.1),))

    assert found.solution.prices.sum() == pytest.approx(2.1, abs=1e-3)
    assert found.solution.prices[0] == pytest.approx(1.001, abs=5e-4)
    assert found.solution.prices[1] == pytest.approx(1.099, abs=5e-4)


def test_the_answer_is_that_of_the_gaussian_model_where_no_price_is_at_zero():
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    mean, weights, u = np.array([3.0, 2.0]), np.array([2.0, 1.0]), 0.2
    found = reconcile(
        Solution(prices=mean, covariance=covariance), (run(weights, 8.3, u),)
    ).solution

    gain = covariance @ weights / (weights @ covariance @ weights + u**2)
    assert found.prices == pytest.approx(mean + gain * (8.3 - weights @ mean))
    assert found.covariance == pytest.approx(covariance - np.outer(gain, weights @ covariance))


def test_runs_of_different_mixes_find_the_prices():
    true = np.array([2.0, 0.5, 100.0])
    mixes = np.array([[10.0, 1.0, 0.1], [1.0, 20.0, 0.2], [5.0, 5.0, 1.0], [0.0, 0.0, 2.0]])
    found = reconcile(
        prior([1.5, 0.7, 110.0], [0.5, 0.3, 20.0]),
        tuple(run(mix, float(mix @ true)) for mix in mixes),
    )

    assert found.solution.prices == pytest.approx(true, rel=2e-3)


def test_no_price_is_negative():
    found = reconcile(prior([0.01, 5.0], [1.0, 2.0]), (run([1.0, 1.0], 4.0), run([1.0, 0.0], -1.0)))

    assert (found.solution.prices >= 0).all()


def test_a_run_that_contradicts_its_parts_is_left_out():
    parts = prior([1.0, 1.0], [0.01, 0.01])
    found = reconcile(parts, (run([1.0, 1.0], 4.0),))

    assert found.used == (False,)
    assert found.deviations[0] > 100
    assert found.solution.prices == pytest.approx(parts.prices)


def test_a_part_of_several_prices_is_as_unsure_as_they_are_together():
    shared = Solution(prices=np.ones(2), covariance=np.full((2, 2), 0.04))

    assert shared.of(np.array([1.0, 1.0])) == (2.0, pytest.approx(0.4))
    assert shared.of(np.array([1.0, -1.0])) == (0.0, pytest.approx(0.0, abs=1e-9))


@pytest.mark.parametrize(("weights", "u"), [([1.0], 0.1), ([1.0, 1.0], 0.0)])
def test_a_run_that_does_not_fit_is_refused(weights, u):
    with pytest.raises(ConfigError, match="weights"):
        reconcile(prior([1.0, 1.0], [0.1, 0.1]), (run(weights, 2.0, u),))
