"""Scatter about a smooth curve: against the scatter that was put there."""

import numpy as np
import pytest

from joulelab.core.recorded import roughness


def noisy(rng, num=60, sd=0.02):
    x = np.sort(rng.uniform(500, 1500, num))
    return x, 0.4 * ((x - 900) / 500) ** 2 + rng.normal(0, sd, num)


def test_the_scatter_that_was_put_there_is_found_whatever_the_curve():
    rng = np.random.default_rng(1)

    found = [roughness([noisy(rng)]).variance for _ in range(200)]

    assert np.mean(found) == pytest.approx(0.02**2, rel=0.03)


def test_the_degrees_of_freedom_say_how_much_the_estimate_varies():
    rng = np.random.default_rng(2)

    found = [roughness([noisy(rng)]) for _ in range(2000)]
    variances = np.array([each.variance for each in found])

    assert 2 * np.mean(variances) ** 2 / np.var(variances) == pytest.approx(found[0].dof, rel=0.15)


def test_a_straight_line_has_none_and_several_curves_pool_theirs():
    x = np.array([1.0, 2.0, 4.0, 8.0, 9.0])

    assert roughness([(x, 3 * x), (x, 1 - x)]).variance == pytest.approx(0, abs=1e-25)
    assert roughness([(x, np.array([0, 1.0, 0, 1, 0]))] * 2).dof == 3


def test_too_few_observations_say_nothing():
    x = np.arange(7.0)

    assert roughness([(x, x)]) is None
    assert roughness([]) is None
