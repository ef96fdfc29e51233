import numpy as np
import pytest

from joulelab.errors import ConfigError
from joulelab.statistics.equivalence import no_slowdown
from joulelab.statistics.paired import compare_pairs
from joulelab.statistics.repeats import (
    change_to_see,
    difference_sd,
    repeats_to_equal,
    repeats_to_see,
)


def pairs(num, *, shift, cv, seed):
    random = np.random.default_rng(seed)
    reference, noise = np.exp(cv * random.standard_normal((2, num)))
    return (1 + shift) * reference, noise


@pytest.mark.parametrize(("effect", "num"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_numbers_are_those_of_cohens_effects(effect, num):
    """G*Power 3.1, two-sided paired t test, alpha 0.05, power 0.8."""
    change = np.expm1(effect * difference_sd(0.01))

    assert repeats_to_see(change, 0.01) == num


def test_a_change_is_seen_as_often_as_stated():
    num = repeats_to_see(0.01, 0.005)

    seen = [
        compare_pairs(*pairs(num, shift=0.01, cv=0.005, seed=seed)).p_t <= 0.05
        for seed in range(300)
    ]

    assert num == 7
    assert 0.75 < np.mean(seen) < 0.93


def test_no_change_is_shown_as_often_as_stated():
    num = repeats_to_equal(0.01, 0.005)

    shown = [
        no_slowdown(*pairs(num, shift=0.0, cv=0.005, seed=seed)).verdict == "equivalent"
        for seed in range(300)
    ]

    assert 0.75 < np.mean(shown) < 0.93


def test_the_change_that_is_seen_needs_as_many_repeats():
    change = change_to_see(12, 0.005)

    assert repeats_to_see(1.0001 * change, 0.005) == 12
    assert repeats_to_see(0.999 * change, 0.005) == 13


def test_interleaved_runs_that_drift_together_need_fewer_repeats():
    assert repeats_to_see(0.003, 0.01, block_correlation=0.8) < repeats_to_see(0.003, 0.01) / 4


def test_a_question_beyond_reach_is_refused():
    with pytest.raises(ConfigError, match="More than 10000 repeats"):
        repeats_to_see(1e-6, 0.05)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"change": 0.0}, "change must be above -1 and not 0"),
        ({"run_cv": 0.0}, "run_cv must be positive"),
        ({"power": 1.0}, "power must be between 0 and 1"),
        ({"power": 0.04}, "power must be above alpha"),
        ({"block_correlation": 1.0}, "block_correlation"),
    ],
)
def test_arguments_have_their_range(arguments, told):
    with pytest.raises(ConfigError, match=told):
        repeats_to_see(**{"change": 0.01, "run_cv": 0.01, **arguments})


def test_one_repeat_shows_nothing():
    with pytest.raises(ConfigError, match="num_repeats must be at least 2"):
        change_to_see(1, 0.01)
