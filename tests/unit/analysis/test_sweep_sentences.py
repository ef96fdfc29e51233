"""Sentences on sweeps of few points, which say nothing of what was not measured."""

from synthetic_results import measurement

from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.wording import sentence


def swept(*costs, relative_u=1e-4):
    """Say what is found of clocks and the factors of their energy."""
    rows = [
        measurement(clock, repeat=i, minute=i, energy_factor=factor, relative_u=relative_u)
        for clock, factor in costs
        for i in range(2)
    ]
    return sentence(analyse_sweep(rows))


def test_a_clock_beside_the_default_is_not_called_better_than_others():
    """Every other clock with valid measurements was called worse, of which there was none."""
    words = swept((None, 3.0), (1500, 1.0))

    assert words.startswith("1500 MHz: ")
    assert words.endswith("against the default clock.")


def test_one_clock_that_is_worse_than_the_default_is_one():
    words = swept((None, 1.0), (1500, 3.0))

    assert words.endswith("; the one other clock with valid measurements is worse.")


def test_every_other_clock_is_worse_where_there_are_several():
    words = swept((None, 3.0), (1500, 1.0), (1000, 3.0))

    assert words.endswith(
        "against the default clock; every other clock with valid measurements is worse."
    )


def test_a_default_that_alone_equals_the_lowest_is_not_among_one_point():
    """It was among the 1 points that are indistinguishable."""
    words = swept((None, 0.9), (1500, 1.0), relative_u=0.3)

    assert words.startswith("No saving is shown: 1500 MHz has the lowest EDP")
    assert words.endswith("but the driver's default is statistically indistinguishable from it.")
