"""Sweeps over boards that the power cap holds at clocks of their own."""

from dataclasses import replace
from itertools import cycle
from random import Random

import pytest
from synthetic_results import measurement, time_s

from joulelab.analysis.methods import methods_paragraph
from joulelab.analysis.power_cap import BEYOND
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_listing
from joulelab.analysis.wording import FEW_BOARDS, UNREPEATED, sentence

CLOCKS_MHZ = tuple(range(600, 1951, 75))
CAPPED = (0.96, 1.05, 0.98, 1.01)  # time at the default, over that of the average board


def swept(clocks_mhz=CLOCKS_MHZ, *, seed=0):
    """Measure the default on every board, on one of them again, and every clock once."""
    random = Random(seed)

    def at(clock, index, minute):
        factor = CAPPED[index] if clock is None else 1.0
        return measurement(
            clock, index=index, minute=minute, relative_u=1e-5,
            time_factor=factor * (1 + random.gauss(0, 1e-4)), energy_factor=factor,
        )  # fmt: skip

    boards = random.sample(range(4), 4)
    rows = [at(None, index, index) for index in (0, 1, 2, 3, 1)]
    pairs = zip(clocks_mhz, cycle(boards), strict=False)
    return rows + [at(clock, index, 9 + place) for place, (clock, index) in enumerate(pairs)]


def phase_of(measurements):
    (phase,) = analyse_sweep(measurements).phases
    return phase


@pytest.mark.parametrize("seed", range(6))
def test_intervals_of_clocks_that_ran_once_hold_how_boards_differ(seed):
    """All of them missed: the factors that a cap gave boards were taken for exact at any clock."""
    phase = phase_of(swept(seed=seed))

    usual_s = time_s(2000) * sum(CAPPED) / len(CAPPED)
    for clock in CLOCKS_MHZ:
        slowdown = phase.row(f"{clock}MHz").figures.slowdown
        assert not slowdown.excludes(time_s(clock) / usual_s - 1)
        assert slowdown.half_width < 0.5
    assert (phase.is_open, phase.is_smoothed) == (False, True)
    assert "clocks about a smooth curve" in " ".join(sweep_listing(phase).legend)
    assert "about smooth curves" in methods_paragraph(phase, swept(seed=seed), {})


def test_too_few_clocks_for_a_curve_have_no_intervals_and_the_reason():
    phase = phase_of(swept((900, 1200, 1500)))

    assert phase.is_open
    assert (phase.members, phase.recommended, phase.dof) == ((), None, 0)
    assert FEW_BOARDS in sweep_listing(phase).legend
    assert "do not show by how much boards differ; take two repeats or more." in sentence(phase)


def test_a_clock_that_the_cap_takes_from_other_boards_is_not_compared():
    """A clock that the best of four boards alone could hold was recommended for all of them."""
    rows = swept()
    held = [
        replace(m, observed=replace(m.observed, sm_clock_mhz=1500.0 + 75 * i, power_cap_share=1.0))
        for i, m in enumerate(rows[:4])
    ]

    phase = phase_of(held + rows[5:])

    beyond = {e.label for e in phase.exclusions}
    assert {"1575MHz", "1800MHz", "1950MHz"} & beyond
    assert not {"1500MHz", "900MHz"} & beyond
    assert {e.why for e in phase.exclusions} == {BEYOND}
    assert f"{len(beyond)} points not compared: {BEYOND}" in sweep_listing(phase).legend
    assert "stand apart" in methods_paragraph(phase, rows, {})


def test_one_board_may_hold_above_its_default_what_it_held_validly():
    (default, clock) = measurement(None), measurement(1950, minute=1)
    held = replace(default.observed, sm_clock_mhz=1500.0, power_cap_share=1.0)

    phase = phase_of([replace(default, observed=held), clock])

    assert not phase.exclusions


def test_a_sweep_in_which_nothing_was_repeated_says_so():
    once = phase_of([measurement(None), measurement(1200, minute=1)])

    assert UNREPEATED in sweep_listing(once).legend
    assert UNREPEATED not in sweep_listing(phase_of(swept())).legend
