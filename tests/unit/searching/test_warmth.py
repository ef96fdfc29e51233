"""Temperatures at which trials were measured, and what a search makes of them."""

from dataclasses import dataclass, replace
from math import exp
from random import Random

import numpy as np
import pytest
from search_surfaces import CLOCKS_MHZ, Surface, problem_on

from joulelab.searching.model.warmth import excess_k, warmth_line
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

NAN = float("nan")


def test_a_board_that_warms_with_its_power_is_never_warmer_than_it_should_be():
    power_w = np.array([100.0, 200.0, 300.0])

    found = excess_k(power_w, 30 + 0.06 * power_w)

    assert found == pytest.approx(np.zeros(3), abs=1e-9)


def test_what_power_does_not_explain_is_warmth():
    power_w, temperature_c = np.full(4, 200.0), np.array([38.0, 42.0, 40.0, 40.0])

    assert excess_k(power_w, temperature_c) == pytest.approx([-2.0, 2.0, 0.0, 0.0])


def test_an_unread_temperature_is_no_warmth():
    power_w = np.array([100.0, 200.0, 300.0])

    assert excess_k(power_w, np.array([40.0, NAN, 60.0]))[1] == 0.0
    assert excess_k(power_w, np.full(3, NAN)).tolist() == [0.0, 0.0, 0.0]


def test_a_line_turns_from_what_is_usual_to_what_was_seen():
    power_w = np.array([100.0, 400.0])
    first = warmth_line(power_w[:1], np.array([40.0]))
    both = warmth_line(power_w, np.array([40.0, 70.0]))

    assert first.kelvin_per_w == pytest.approx(0.06)
    assert both.kelvin_per_w == pytest.approx(0.1, abs=0.005)
    assert both.slope_sd < first.slope_sd
    assert both.at(np.array([250.0]))[0] == pytest.approx(55.0)


def test_temperatures_that_follow_power_are_told_closely_and_those_that_scatter_are_not():
    power_w = np.linspace(100.0, 300.0, 6)
    scattered = np.array([3.0, -3.0, 3.0, -3.0, 3.0, -3.0])

    _, exact_c = warmth_line(power_w, 30 + 0.1 * power_w).at(power_w)
    _, loose_c = warmth_line(power_w, 30 + 0.1 * power_w + scattered).at(power_w)

    assert exact_c.max() < 1.5
    assert loose_c.min() > 3.0


@dataclass
class Warming(Surface):
    """A board whose power grows by 0.3 % a kelvin, and whose room gets warmer and colder.

    Steadily loaded it is 0.06 K/W above the room; the noise is the same for each temperature.
    """

    room_c: float = 30.0
    is_told: bool = True

    def figures(self, configuration, random):
        figures = super().figures(configuration, random)
        room_c = self.room_c + random.uniform(-8.0, 8.0)
        energy_j = figures.energy_j * exp(0.003 * (room_c - self.room_c))
        return replace(
            figures,
            energy_j=energy_j,
            power_w=energy_j / figures.time_s,
            temperature_c=room_c + 0.06 * figures.power_w if self.is_told else None,
        )


def error_of(*, is_told, seed):
    """Return how far off the expected cost of clocks is, after each fifth of them was measured."""
    space = SearchSpace("vit", {"sm_clock_mhz": CLOCKS_MHZ[::3]}, knobs={"batch": 64})
    surface, strategy = Warming(space, is_told=is_told), ModelGuided(problem_on(space))
    random = Random(seed)
    for place in [0, *range(1, len(space), 4)]:
        strategy.tell(surface.outcome(space[place], random))
    true = np.array([surface.log_edp(each) for each in space])
    error = strategy.forecast().log_cost - true
    return float(np.std(error))


def test_the_temperatures_of_trials_make_their_costs_comparable():
    seeds = range(12)

    told, untold = (
        np.mean([error_of(is_told=known, seed=seed) for seed in seeds]) for known in (True, False)
    )

    assert told < 0.6 * untold
