from itertools import pairwise
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic_results import DEFAULT_MHZ, energy_j, time_s, visits

from joulelab import OperatingPoint
from joulelab.core.additive import Interval, fit_additive
from joulelab.core.comparison import best_set, dunnett_quantile, non_dominated, over_best
from joulelab.core.lines import roughness
from joulelab.core.statistics import student_quantile
from joulelab.errors import ConfigError

CLOCKS_MHZ = tuple(range(900, 2001, 50))
LABELS = {clock: OperatingPoint(sm_clock_mhz=clock).label for clock in (None, *CLOCKS_MHZ)}
BEST_MHZ = min(CLOCKS_MHZ, key=lambda clock: energy_j(clock) * time_s(clock))


def fitted(values, *, repeats=3, noise=0.0, u=0.0, seed=0):
    """Fit ``repeats`` measurements of each of ``values`` on one board."""
    random = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(len(values)) for _ in range(repeats)]
    logarithms = [v + random.normal(0, noise) for v in values for _ in range(repeats)]
    return fit_additive(names, ["x"] * len(names), logarithms, [u] * len(names))


def fitted_sweep(seed, **changes):
    made = visits(CLOCKS_MHZ, seed=seed, **changes)
    clocks_mhz = [visit["clock_mhz"] or DEFAULT_MHZ for visit in made]
    return fit_additive(
        [LABELS[visit["clock_mhz"]] for visit in made],
        [visit["index"] for visit in made],
        [
            log(energy_j(clock) * time_s(clock) * visit["energy_factor"] * visit["time_factor"])
            for clock, visit in zip(clocks_mhz, made, strict=True)
        ],
        [0.001] * len(made),
    )


# C. W. Dunnett, JASA 50 (1955), table 1a: one-sided, joint confidence 95 %.
@pytest.mark.parametrize(
    ("dof", "row"),
    [
        (5, (2.02, 2.44, 2.68, 2.85, 2.98, 3.08, 3.16, 3.24, 3.30)),
        (10, (1.81, 2.15, 2.34, 2.47, 2.56, 2.64, 2.70, 2.76, 2.81)),
        (20, (1.72, 2.03, 2.19, 2.30, 2.39, 2.46, 2.51, 2.56, 2.60)),
        (inf, (1.64, 1.92, 2.06, 2.16, 2.23, 2.29, 2.34, 2.38, 2.42)),
    ],
)
def test_critical_values_are_those_of_dunnetts_table(dof, row):
    computed = [dunnett_quantile(0.95, num=num, correlation=0.5, dof=dof) for num in range(1, 10)]

    assert computed == pytest.approx(row, abs=0.0075)


def test_independent_comparisons_need_sidaks_value():
    computed = dunnett_quantile(0.95, num=110, correlation=0.0, dof=inf)

    assert computed == pytest.approx(student_quantile(0.95 ** (1 / 110), inf), abs=1e-5)


@given(
    correlation=st.floats(0, 0.85), num=st.integers(2, 120), dof=st.sampled_from([1, 4, 30, inf])
)
def test_more_correlation_never_widens_the_margin(correlation, num, dof):
    loose = dunnett_quantile(0.95, num=num, correlation=correlation, dof=dof)
    tight = dunnett_quantile(0.95, num=num, correlation=correlation + 0.05, dof=dof)

    assert tight <= loose + 1e-5
    assert tight >= student_quantile(0.95, dof) - 1e-9


def test_without_any_uncertainty_the_lowest_stands_alone():
    found = best_set(fitted([0.3, 0.1, 0.2]))

    assert found.best == "c1"
    assert found.members == ("c1",)


def test_equal_configurations_are_all_in_the_set():
    found = best_set(fitted([0.0, 0.0, 0.0, 1.0], u=0.01))

    assert set(found.members) == {"c0", "c1", "c2"}


def test_the_set_is_bounded_by_the_critical_value():
    u, repeats, num = 0.01, 3, 4
    margin = dunnett_quantile(0.95, num=num, correlation=0.5, dof=inf) * u * (2 / repeats) ** 0.5

    inside = best_set(fitted([0.0, 0.99 * margin, 1.0, 1.0, 1.0], u=u, repeats=repeats))
    outside = best_set(fitted([0.0, 1.01 * margin, 1.0, 1.0, 1.0], u=u, repeats=repeats))

    assert inside.members == ("c0", "c1")
    assert outside.members == ("c0",)


def test_members_come_in_the_order_of_their_estimates():
    found = best_set(fitted([0.02, 0.0, 0.01], u=0.05))

    assert found.members == ("c1", "c2", "c0")


def test_one_configuration_is_its_own_best():
    found = best_set(fitted([0.5], noise=0.1))

    assert found.members == ("c0",)


def test_a_higher_level_never_shrinks_the_set():
    fit = fitted([i / 100 for i in range(12)], noise=0.02)

    sets = [set(best_set(fit, level=level).members) for level in (0.6, 0.8, 0.95, 0.99)]

    assert all(smaller <= larger for smaller, larger in pairwise(sets))


def test_noise_shrinks_with_repeats_and_so_does_the_set():
    few, many = (best_set(fitted_sweep(1, repeats=n, noise=0.02)).members for n in (2, 30))

    assert len(many) < len(few)


def covered(seeds, **changes):
    hits = [f"{BEST_MHZ}MHz" in best_set(fitted_sweep(seed, **changes)).members for seed in seeds]
    return float(np.mean(hits))


@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_the_true_optimum_is_in_the_set_as_often_as_it_says(noise):
    naive = np.mean(
        [best_set(fitted_sweep(seed, noise=noise)).best == f"{BEST_MHZ}MHz" for seed in range(60)]
    )

    assert naive < 0.7, "the optimum must be flat enough for the lowest estimate to miss it"
    assert covered(range(60), noise=noise) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("num_boards", [1, 4])
def test_coverage_holds_over_a_thousand_sweeps(repeats, num_boards):
    level = covered(range(1000), repeats=repeats, num_boards=num_boards, sentinel_every=3)

    assert level >= 0.95


def test_comparisons_that_exclude_each_other_are_corrected_as_by_bonferroni():
    quantile = dunnett_quantile(0.95, num=5, correlation=-0.1, dof=10)

    assert quantile == pytest.approx(student_quantile(0.99, 10))


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


costs = st.integers(1, 12).flatmap(
    lambda n: arrays(float, (n, 2), elements=st.integers(0, 5).map(float))
)


def test_the_front_of_a_known_set():
    energy_and_time = np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [5.0, 1.0], [5.0, 1.0]])

    assert non_dominated(energy_and_time).tolist() == [True, True, False, True, True]


@given(costs=costs)
def test_whatever_is_off_the_front_is_beaten_by_a_point_on_it(costs):
    on_front = non_dominated(costs)

    assert on_front.any()
    for point in costs[~on_front]:
        better = (costs[on_front] <= point).all(axis=1) & (costs[on_front] < point).any(axis=1)
        assert better.any()


@given(costs=costs)
def test_points_on_the_front_do_not_beat_each_other(costs):
    assert non_dominated(costs[non_dominated(costs)]).all()


@pytest.mark.parametrize("costs", [np.zeros(3), np.array([[1.0, np.nan]])])
def test_points_that_cannot_be_compared_are_refused(costs):
    with pytest.raises(ConfigError, match="costs must be finite"):
        non_dominated(costs)


def test_what_is_lost_against_the_best_holds_the_luck_that_made_it_the_best():
    """Regrets over the lowest estimate held the truth in 86 % of 95 % intervals, or were 0 +- 0."""
    held, naive, x = [], [], np.linspace(-1, 1, 15)
    names = [str(i) for i in range(len(x))]
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = np.repeat(0.02 * x**2, 3) + rng.normal(0, 0.02, 3 * len(x))
        found = fit_additive(
            np.repeat(names, 3).tolist(), ["x"] * len(y), y.tolist(), [0.0] * len(y)
        )
        lowest, truth = names[int(np.argmin(found.estimate))], np.exp(0.02 * x[9] ** 2)
        held.append(not over_best(found, "9").excludes(truth))
        naive.append(not found.ratio("9", lowest).excludes(truth))
        assert over_best(found, "9").low >= 1.0
        assert over_best(found, lowest).value == 1.0 < over_best(found, lowest).high

    assert np.mean(held) >= 0.95 > np.mean(naive)


def test_nothing_is_lost_against_the_best_where_there_is_no_other():
    alone = fit_additive(["a", "a"], ["x", "x"], [1.0, 1.1], [0.0, 0.0])

    assert over_best(alone, "a") == Interval(value=1.0, low=1.0, high=1.0)
