"""A curve with a closed form: time ``1000 / f`` and energy ``f / 1000 + 4 * 1000 / f``."""

import re
from io import StringIO

import pytest
from estimates_by_hand import processor
from rich.console import Console

from joulelab.cli.estimate_sweep import (
    around_table,
    changes,
    optima_table,
    shown,
    sweep_sentence,
    within,
)
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.question import Curve, clock_grid

CLOCKS = tuple(range(500, 4001, 100))


def curve(**changes):
    made = {
        "model": "network",
        "processor": processor(),
        "precision": "fp16",
        "batch": 8,
        "phase": "forward",
        "unit": "image",
        "work": 8.0,
        "clocks_mhz": CLOCKS,
        "default": CLOCKS.index(4000),
        "latency_s": tuple(1000 / f for f in CLOCKS),
        "energy_j": tuple(f / 1000 + 4000 / f for f in CLOCKS),
        "keeps": (True,) * len(CLOCKS),
    }
    return Curve(**{**made, **changes})


def printed(table):
    console = Console(width=100, file=StringIO())
    console.print(table)
    return console.file.getvalue()


def test_the_best_clock_is_where_the_closed_form_has_its_minimum():
    # d/df (f / 1000 + 4000 / f) = 0 at 2000; E t = 1 + 4e6 / f^2 falls to the end.
    assert CLOCKS[curve().best("energy")] == 2000
    assert CLOCKS[curve().best("edp")] == 4000
    assert CLOCKS[curve().best("time")] == 4000


def test_an_unknown_objective_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'edp'"):
        curve().best("edpp")


def test_the_flat_part_holds_every_clock_within_a_percent():
    first, last = curve().near_best("energy")

    # f / 2000 + 2000 / f <= 2.02 holds from 1737 to 2303 MHz.
    assert (CLOCKS[first], CLOCKS[last]) == (1800, 2300)


def test_the_sentence_says_what_is_saved_against_the_default():
    said = sweep_sentence([curve()], "energy")

    # 4 J at 2000 MHz against 5 J at 4000 MHz, twice as long.
    assert "2000 MHz on Invented Board, 500 mJ/image in 62.5 ms/image" in said
    assert "20.0% less energy and +100.0% time against the default clock" in said
    assert "from 1800 to 2300 MHz it is within 1 %" in said
    assert changes(curve(), CLOCKS.index(2000)) == pytest.approx((0.2, 1.0))


def test_a_default_that_is_best_is_said_to_be():
    assert "the default clock is best" in sweep_sentence([curve()], "edp")


def test_the_tables_mark_best_flat_part_and_default():
    around = printed(around_table(curve(), "energy"))
    optima = printed(optima_table([curve(), curve(batch=16)], "energy"))

    assert re.search(r"\* +2000 +8 +500 mJ/image +62.5 ms/image +1.000 +\+20.0% +\+100.0%", around)
    assert re.search(r"= +1800 ", around)
    assert re.search(r"default 4000", around)
    assert re.search(r"16 +2000 +1800 to 2300", optima)


def test_the_rows_shown_hold_ends_default_and_flat_part():
    places = shown(curve(), "energy")

    assert {0, len(CLOCKS) - 1, *curve().near_best("energy"), curve().default} <= set(places)
    assert len(places) < 20


def test_a_grid_covers_the_range_and_holds_the_default():
    grid = clock_grid(processor(clocks_mhz=(200, 1010, 1800)))

    assert (grid[0], grid[-1]) == (200, 1800)
    assert 1010 in grid
    assert clock_grid(processor(), (500, 300)) == (300, 500, 1000)


def test_a_clock_off_the_range_is_refused():
    with pytest.raises(ConfigError, match="from 200 to 1000 MHz, got 1500"):
        clock_grid(processor(), (500, 1500))


def test_the_best_clock_is_the_best_of_those_that_keep_to_the_limits():
    """The lowest energy is at 2000 MHz, which takes 0.5 s."""
    free, fast = curve(), within(curve(), {"latency": 0.4, "energy": None, "power": None})

    assert CLOCKS[free.best("energy")] == 2000
    assert CLOCKS[fast.best("energy")] == 2500
    assert [CLOCKS[place] for place in fast.near_best("energy")] == [2500, 2600]
    assert "! breaks a" in printed(around_table(fast, "energy"))
    assert "! breaks a" not in printed(around_table(free, "energy"))
