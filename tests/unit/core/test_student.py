from math import inf, isinf

import pytest
from scipy.special import ndtri, stdtrit

from joulelab.core.statistics import student_quantile


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 7, 30, 1001, inf])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.84, 0.975, 0.9995])
def test_quantiles_of_students_distribution_are_scipys(probability, dof):
    expected = ndtri(probability) if isinf(dof) else stdtrit(dof, probability)

    assert student_quantile(probability, dof) == pytest.approx(expected, rel=1e-10, abs=1e-12)
