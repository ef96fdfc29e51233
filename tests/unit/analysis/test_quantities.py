import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.analysis.quantities import quantity, si_scale, uncertain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 mJ"),
        (1234.5, "1.234 kJ"),
        (1e-6, "1 µJ"),
        (0.0, "0 J"),
        (999.9, "999.9 J"),
        (999.96, "1 kJ"),
    ],
)
def test_a_number_gets_the_prefix_that_leaves_one_to_three_digits(value, text):
    assert quantity(value, "J") == text


def test_parts_of_a_byte_have_no_prefix_that_could_be_taken_for_another():
    """Kernels of a network that stays in the cache had 336 mB, which reads as MB."""
    assert quantity(0.336, "B") == "0.336 B"
    assert quantity(336e6, "B") == "336 MB"


@pytest.mark.parametrize(
    ("value", "u", "text"),
    [
        (0.012345, 0.000067, "12.345 ± 0.067 mJ"),
        (388.54, 0.38, "388.54 ± 0.38 J"),
        (1234.0, 120.0, "1.23 ± 0.12 kJ"),
        (5.0, 40.0, "5 ± 40 J"),
        (12.5, 0.0, "12.5 J"),
    ],
)
def test_an_uncertain_number_is_written_to_the_second_digit_of_its_uncertainty(value, u, text):
    assert uncertain(value, u, "J") == text


def test_an_uncertainty_of_rounding_alone_is_left_out():
    assert uncertain(2.2131870023, 1e-15, "s") == "2.21319 s"


@given(st.floats(1e-14, 1e15), st.floats(1e-5, 0.5))
def test_what_is_written_agrees_with_the_number_within_its_uncertainty(value, relative_u):
    text = uncertain(value, relative_u * value, "J")

    number, _, u, unit = text.split()
    scale = {"f": -15, "p": -12, "n": -9, "µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12}
    factor = 10.0 ** ({**scale, "P": 15}[unit[0]] if len(unit) == 2 else 0)
    assert abs(float(number) * factor - value) <= 0.051 * relative_u * value * 10
    assert float(u) * factor == pytest.approx(relative_u * value, rel=0.06)


@pytest.mark.parametrize(
    ("values", "factor", "prefix"),
    [
        ([0.2, 0.5], 1e3, "m"),
        ([3.0, 4.0], 1.0, ""),
        ([1.3e-4], 1e6, "\N{MICRO SIGN}"),
        ([5e4, 6e4, 1e9], 1e-3, "k"),
        ([1e-30], 1e15, "f"),
        ([], 1.0, ""),
    ],
)
def test_prefixes_suit_the_middle_of_the_values(values, factor, prefix):
    assert si_scale(values) == (pytest.approx(factor), prefix)
