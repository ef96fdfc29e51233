"""The choice of a clock against closed forms, and rows that must not win."""

import numpy as np
import pytest

from joulelab.errors import ConfigError, MeasurementError
from joulelab.power_models.decision import Sweep, best_fixed_clock_mhz, regret

CLOCKS = np.array([500.0, 1000.0, 1500.0, 2000.0])


def cubic(constant_w=1.0):
    """P = constant + (f/GHz)^3 and T = 1 / (f/GHz), so E = constant / f + f^2."""
    return Sweep(sm_clock_mhz=CLOCKS, power_w=constant_w + (CLOCKS / 1e3) ** 3, time_s=1e3 / CLOCKS)


@pytest.mark.parametrize(("goal", "power"), [("energy", 1), ("edp", 2), ("ed2p", 3)])
def test_cost_is_power_times_time_to_its_exponent(goal, power):
    sweep = cubic()

    assert sweep.cost(goal) == pytest.approx(sweep.power_w * sweep.time_s**power)


def test_the_best_clock_is_where_the_closed_form_says():
    # E = 2 / f + f^2 is least at f = 1 GHz; EDP = 2 / f^2 + f at f = 1.59 GHz.
    sweep = cubic(constant_w=2.0)

    assert sweep.sm_clock_mhz[sweep.best("energy")] == 1000.0
    assert sweep.sm_clock_mhz[sweep.best("edp")] == 1500.0


@pytest.mark.parametrize("broken", [0.0, np.nan, -1.0, np.inf])
def test_a_zero_or_missing_row_never_wins(broken):
    """A sweep without a predicted power had zeros for energy, and the first clock won."""
    power_w = np.array([broken, 50.0, 80.0, 130.0])
    sweep = Sweep(sm_clock_mhz=CLOCKS, power_w=power_w, time_s=1e3 / CLOCKS)

    assert sweep.best("energy") == 1


def test_without_a_usable_row_there_is_no_answer():
    sweep = Sweep(sm_clock_mhz=CLOCKS, power_w=np.zeros(4), time_s=np.ones(4))

    with pytest.raises(MeasurementError, match="positive power and time"):
        sweep.best("edp")


def test_of_equal_rows_the_fastest_is_taken():
    sweep = Sweep(
        sm_clock_mhz=CLOCKS,
        power_w=np.array([10.0, 20.0, 40.0, 80.0]),
        time_s=np.array([8.0, 4.0, 2.0, 1.0]),
    )

    assert sweep.best("energy") == 3


def test_regret_is_what_the_choice_costs_over_the_best():
    sweep = cubic(constant_w=2.0)

    assert regret(sweep, 1000.0, "energy") == 0.0
    assert regret(sweep, 2040.0, "energy") == pytest.approx((2 / 2 + 4) / 3 - 1)


def test_the_best_fixed_clock_has_the_least_mean_regret():
    slow = cubic(constant_w=0.5)
    fast = cubic(constant_w=20.0)

    clock_mhz = best_fixed_clock_mhz([slow, fast], "energy")

    means = [np.mean([regret(s, c, "energy") for s in (slow, fast)]) for c in CLOCKS]
    assert clock_mhz == CLOCKS[int(np.argmin(means))]


def test_an_objective_with_quality_is_refused():
    with pytest.raises(ConfigError, match="without quality"):
        cubic().cost("qep")
