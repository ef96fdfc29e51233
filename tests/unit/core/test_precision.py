import pytest

from joulelab.core.energy import EnergyWindow, more_windows, relative_half_width


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


def test_a_lucky_pair_of_windows_is_no_surer_than_its_readings():
    assert relative_half_width(windows_of(100, 100, u_j=2)) == pytest.approx(
        1.96 * 2 * 2**0.5 / 200
    )


def test_no_more_windows_are_asked_for_once_precise_enough():
    assert more_windows(windows_of(99, 100, 101), 0.03) == 0


def test_more_windows_are_asked_for_but_never_more_than_there_are():
    assert more_windows(windows_of(99, 100, 101), 0.02) == 2
    assert more_windows(windows_of(90, 100, 110), 0.001) == 3
