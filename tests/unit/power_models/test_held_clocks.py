"""The clock of a run that a power limit held below the one that was asked for."""

import pytest

from joulelab.hardware import GPUS
from joulelab.power_models.held_clocks import likely_held_mhz

H200 = GPUS["h200_sxm"]


def test_a_run_at_the_limit_was_held_where_gemms_are_held():
    """Measured on an H200: GEMMs at its limit run at 1425, 1538 and 1725 MHz, and not at 1980."""
    assert 1400 <= likely_held_mhz(H200, 1980.0, 0.985 * H200.default_power_limit_w) <= 1725


@pytest.mark.parametrize("share", [0.3, 0.9, 1.2])
def test_a_run_below_the_limit_or_with_another_limit_kept_its_clock(share):
    assert likely_held_mhz(H200, 1980.0, share * H200.default_power_limit_w) == 1980.0


def test_a_run_that_was_asked_for_a_clock_that_no_load_exceeds_the_limit_at_kept_it():
    assert likely_held_mhz(H200, 900.0, H200.default_power_limit_w) == 900.0
