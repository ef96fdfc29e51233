"""What an answer says of the cost of metering."""

from dataclasses import replace

import pytest

from joulelab.analysis.attributed.numbers import content
from joulelab.analysis.attributed.table import metering_words
from joulelab.sampling.spells import MeteringCost


def test_a_cost_that_scatter_hides_is_said_not_to_be_known():
    cost = MeteringCost(pairs=((1.0, 1.1), (1.2, 1.0), (1.0, 1.0), (1.1, 1.3)))

    assert "is not known" in metering_words("decode", cost)


def test_what_metering_costs_is_known_with_its_interval():
    cost = MeteringCost(pairs=((1.010, 1.0), (1.011, 1.0), (1.009, 1.0)))

    assert metering_words("decode", cost).startswith(
        "Metering makes decode +1.00% slower (95%: +0."
    )


@pytest.mark.parametrize("pair", [(1.0, 1.1), (1.011, 1.0)], ids=["scatter", "known"])
def test_a_file_holds_the_interval_of_a_cost_be_its_mean_known_or_not(replayed, pair):
    cost = MeteringCost(pairs=((1.009, 1.0), (1.010, 1.0), pair))

    read = content(replace(replayed[0], metering={"decode": cost}))["metering"]["decode"]

    assert (read["slowdown_low"], read["slowdown_high"]) == (cost.slowdown.low, cost.slowdown.high)
    assert read["num_pairs"] == 3
    assert ("slowdown" in read) is read["is_known"] is cost.is_known
