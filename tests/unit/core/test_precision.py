from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from joulelab.core.energy import (
    EnergyWindow,
    mean_u_j,
    more_windows,
    relative_half_width,
    total_u_j,
)


def windows_of(*energies_j, u_j=0.01):
    return [
        EnergyWindow(
            start_s=0.0, duration_s=1.0, energy_j=e, energy_u_j=u_j, source="counter", work=1.0
        )
        for e in energies_j
    ]


def test_the_half_width_of_three_windows_is_students():
    # sd 1, standard error 1/sqrt(3), Student factor 4.303
    assert relative_half_width(windows_of(99, 100, 101)) == pytest.approx(
        0.04303 / 3**0.5, rel=1e-3
    )


def test_the_relative_half_width_is_the_same_of_smaller_units_of_work():
    small = [replace(window, work=1000.0) for window in windows_of(99, 100, 101)]

    assert relative_half_width(small) == pytest.approx(
        relative_half_width(windows_of(99, 100, 101))
    )


def test_a_lucky_pair_of_windows_is_no_surer_than_its_readings():
    assert relative_half_width(windows_of(100, 100, u_j=2)) == pytest.approx(
        1.96 * 2 * 2**0.5 / 200
    )


def test_no_more_windows_are_asked_for_once_precise_enough():
    assert more_windows(windows_of(99, 100, 101), 0.03) == 0


def test_more_windows_are_asked_for_but_never_more_than_there_are():
    assert more_windows(windows_of(99, 100, 101), 0.02) == 2
    assert more_windows(windows_of(90, 100, 110), 0.001) == 3


def adjoining(edges_j, edge_u_j, *, apart_s=0.0):
    """Windows of a second each between readings of known error."""
    return [
        EnergyWindow(
            start_s=number * (1.0 + apart_s),
            duration_s=1.0,
            energy_j=after_j - before_j,
            energy_u_j=edge_u_j * 2**0.5,
            source="counter",
            work=1.0,
            start_u_j=edge_u_j,
        )
        for number, (before_j, after_j) in enumerate(pairwise(edges_j))
    ]


def test_readings_between_adjoining_windows_fall_out_of_their_sum():
    windows = adjoining([0, 100, 200, 300, 400], 3.0)

    assert total_u_j(windows) == pytest.approx(3.0 * 2**0.5)
    assert relative_half_width(windows) == pytest.approx(1.96 * 3.0 * 2**0.5 / 400)


def test_readings_of_windows_apart_or_of_unknown_edges_are_independent():
    apart = adjoining([0, 100, 200, 300, 400], 3.0, apart_s=0.1)

    assert total_u_j(apart) == pytest.approx(3.0 * 8**0.5)
    assert total_u_j(windows_of(100, 100, u_j=3.0)) == pytest.approx(3.0 * 2**0.5)


@pytest.mark.parametrize("num_windows", [3, 6])
@pytest.mark.parametrize(("load_j", "least", "most"), [(0.0, 0.97, 1.0), (1.0, 0.93, 0.98)])
def test_intervals_of_adjoining_windows_hold_the_truth(num_windows, load_j, least, most):
    # Edges err by 1 J as stated, and the load scatters by ``load_j`` from window to window.
    random, held, number = np.random.default_rng(0), 0, 2000
    for _ in range(number):
        truth_j = np.r_[0, np.cumsum(100 + random.normal(0, load_j, num_windows))]
        windows = adjoining(truth_j + random.normal(0, 1, num_windows + 1), 1.0)
        mean_j = sum(window.energy_j for window in windows) / num_windows
        held += abs(mean_j / 100 - 1) <= relative_half_width(windows) * mean_j / 100

    assert least <= held / number <= most


def test_scatter_that_no_reading_explains_stays_whole():
    windows = adjoining([0, 90, 200, 300], 0.0)

    reading_u_j, scatter_u_j = mean_u_j(windows, [90, 110, 100])

    assert reading_u_j == 0
    assert scatter_u_j == pytest.approx(10 / 3**0.5)
