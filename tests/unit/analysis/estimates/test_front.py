"""Of devices that are compared, the front is what no other one beats."""

from dataclasses import replace

import pytest
from estimates_by_hand import cell, estimate, phase, processor, refused

from joulelab.analysis.estimates.figures import front_figure
from joulelab.analysis.estimates.overview import front_sentences, with_front
from joulelab.errors import ConfigError


def on(key, work, **fields):
    """Return a cell on a device, whose costs per unit fall with ``work``."""
    made = cell(estimate(phases=(phase(work=work),)), **fields)
    return replace(made, processor=replace(processor(), key=key))


def marks(cells):
    return [each.on_front for each in cells]


def test_who_is_slower_and_needs_more_is_not_on_the_front():
    assert marks(with_front([on("a", 16.0), on("b", 8.0)], {})) == [True, False]


def test_a_price_brings_the_cheaper_one_back():
    found = with_front([on("a", 16.0), on("b", 8.0)], {"a": 100.0, "b": 10.0})

    assert marks(found) == [True, True]
    assert [each.price for each in found] == [100.0, 10.0]
    assert front_sentences(found) == [
        "On the front of time, energy and price, fastest first: a; b."
    ]


def test_a_power_mode_costs_what_its_device_does():
    found = with_front([on("a:15w", 8.0), on("b", 8.0)], {"a": 3.0, "b": 2.0})

    assert found[0].price == 3.0


def test_what_cannot_be_compared_has_no_mark():
    assert marks(with_front([on("a", 8.0), on("b", 8.0), refused()], {})) == [True, True, None]


@pytest.mark.parametrize("prices", [{"a": 1.0}, {"a": 1.0, "b": -1.0}])
def test_every_device_needs_a_price_if_one_has_one(prices):
    with pytest.raises(ConfigError, match="--price b=PRICE"):
        with_front([on("a", 8.0), on("b", 8.0)], prices)


def test_less_than_an_estimate_resolves_puts_nothing_on_the_front():
    found = with_front([on("a", 8.0), on("b", 8.02)], {})

    assert marks(found) == [True, True]


def test_the_front_is_drawn_with_the_names_of_all():
    figure = front_figure(with_front([on("a", 16.0), on("b", 8.0)], {}))

    assert {"a", "b"} <= {text.get_text() for text in figure.axes[0].texts}
