import numpy as np
import pytest

from joulelab.errors import ConfigError, MeasurementError
from joulelab.statistics.equivalence import no_slowdown
from joulelab.statistics.paired import compare_pairs, holm

# Student, Biometrika 6 (1908): extra hours of sleep with two drugs, as logarithms of a ratio.
SLEEP_1 = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SLEEP_2 = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
# Hollander and Wolfe (1973), table 3.1: depression before and after a tranquilliser.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def pairs(num, *, shift=0.0, scatter=0.005, seed=0):
    """Return times with a relative change of ``shift``, and their references."""
    random = np.random.default_rng(seed)
    reference = 10.0 * np.exp(scatter * random.standard_normal(num))
    return reference * (1 + shift) * np.exp(scatter * random.standard_normal(num)), reference


def test_the_paired_t_test_gives_the_published_values_of_the_sleep_data():
    found = compare_pairs(np.exp(SLEEP_1), np.exp(SLEEP_2))

    assert np.log(found.ratio.value) == pytest.approx(-1.58)
    assert (np.log(found.ratio.low), np.log(found.ratio.high)) == pytest.approx(
        (-2.4598858, -0.7001142)
    )
    assert found.p_t == pytest.approx(0.002833, abs=1e-6)


def test_wilcoxon_and_hodges_lehmann_give_the_published_values_of_the_depression_data():
    found = compare_pairs(np.exp(BEFORE), np.exp(AFTER))

    assert found.p_wilcoxon == pytest.approx(2 * 0.01953, abs=1e-5)
    assert np.log(found.hodges_lehmann) == pytest.approx(0.46, abs=1e-9)


def test_one_bad_run_moves_the_hodges_lehmann_estimate_little():
    treated, reference = pairs(9, shift=-0.1)
    treated[3] *= 2

    found = compare_pairs(treated, reference)

    assert found.hodges_lehmann == pytest.approx(0.9, abs=0.01)
    assert found.ratio.value > 0.95


def test_holm_gives_the_worked_values():
    # Each sorted p-value times the number of those not smaller, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_equal_times_are_equivalent_and_longer_ones_slower():
    equal = no_slowdown(*pairs(10), margin=0.01)
    slower = no_slowdown(*pairs(10, shift=0.05), margin=0.01)
    faster = no_slowdown(*pairs(10, shift=-0.05), margin=0.01)
    few = no_slowdown(*pairs(2, scatter=0.02), margin=0.01)

    assert [each.verdict for each in (equal, slower, faster, few)] == [
        "equivalent",
        "slower",
        "not slower",
        "open",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_equivalence_is_the_interval_inside_the_margins(seed):
    found = no_slowdown(*pairs(6, shift=0.004, seed=seed), margin=0.01)

    inside = found.ratio.low > 1 / 1.01 and found.ratio.high < 1.01
    assert (found.verdict == "equivalent") == inside


def test_a_slowdown_as_large_as_the_margin_is_called_equivalent_as_often_as_stated():
    found = [no_slowdown(*pairs(8, shift=0.02, seed=seed), margin=0.02) for seed in range(2000)]

    share = np.mean([each.p_equivalent <= 0.05 for each in found])
    assert share == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 2000))


def test_no_change_is_seen_as_often_as_stated():
    found = [compare_pairs(*pairs(8, seed=seed)).p_t <= 0.05 for seed in range(500)]

    assert np.mean(found) == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 500))


def test_copies_of_one_measurement_are_refused():
    with pytest.raises(MeasurementError, match="copies of one measurement"):
        compare_pairs([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("treated", "told"),
    [
        ([1.0], "at least 2 values"),
        ([1.0, 0.0, 1.0], r"treated must be positive and finite, got 0.0 at position 1"),
        ([1.0, 1.1, np.nan], "got nan at position 2"),
    ],
)
def test_what_is_no_measurement_is_refused_with_its_position(treated, told):
    with pytest.raises(MeasurementError, match=told):
        compare_pairs(treated, [1.0, 1.1, 1.2])


def test_partners_must_be_there():
    with pytest.raises(ConfigError, match="must come in pairs, got 2 and 3"):
        compare_pairs([1.0, 1.1], [1.0, 1.1, 1.2])


@pytest.mark.parametrize("wrong", [{"margin": 0.0}, {"alpha": 0.6}])
def test_margin_and_alpha_have_their_range(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        no_slowdown(*pairs(5), **wrong)


def test_a_p_value_lies_from_0_to_1():
    with pytest.raises(ConfigError, match="p_values"):
        holm([0.1, 1.2])
