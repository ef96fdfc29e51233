from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from joulelab import OperatingPoint
from joulelab.core.bounds import MOST_TRIALS
from joulelab.core.configuration import Configuration
from joulelab.core.plan import plan_sweep
from joulelab.core.procedure import Procedure
from joulelab.errors import ConfigError

WAITS = ("idle_s", "settle_s", "warmup_min_s", "warmup_max_s", "cool_max_s")
OTHERS = ("window_s", "quick_window_s", "limit_s", "relative_ci", "sampler_budget", "start_below_c")


@pytest.mark.parametrize("name", [*WAITS, *OTHERS, "sample_period_s"])
@pytest.mark.parametrize("value", [nan, inf, -inf, -1.0, 1e9])
def test_what_never_ends_or_is_no_number_is_no_part_of_a_procedure(name, value):
    """A window of 1e9 s was measured for ever, and a nan took every comparison for false."""
    with pytest.raises(ConfigError, match=f"{name} must be .*, got "):
        replace(Procedure(), **{name: value})


@pytest.mark.parametrize("value", [0, -1, 100_001])
def test_the_number_of_windows_is_bounded(value):
    with pytest.raises(ConfigError, match="min_windows must be within"):
        Procedure(min_windows=value)


def test_windows_that_take_longer_than_a_day_are_refused_together():
    with pytest.raises(ConfigError, match="must fit into a day"):
        Procedure(window_s=3600.0, min_windows=25)


def test_the_longest_procedure_that_makes_sense_is_allowed():
    Procedure(
        idle_s=3600.0, window_s=3600.0, min_windows=24, limit_s=86400.0, cool_max_s=86400.0,
        relative_ci=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("value", [nan, inf, 0, -5, 1e300])
@pytest.mark.parametrize("name", ["sm_clock_mhz", "mem_clock_mhz", "power_limit_w"])
def test_an_operating_point_is_of_finite_numbers(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be positive and below"):
        OperatingPoint(**{name: value})


@pytest.mark.parametrize("value", [1095.0, "1095", np.int64(1095)])
def test_a_clock_is_a_whole_number_that_a_line_of_a_store_takes(value):
    """1095.0 was measured, its line then called broken; numpy's ended a search in a traceback."""
    with pytest.raises(ConfigError, match=r"sm_clock_mhz must be .* a whole number"):
        OperatingPoint(sm_clock_mhz=value)


@pytest.mark.parametrize("repeats", [0, -1, MOST_TRIALS + 1, 10**12])
def test_a_plan_too_long_for_any_memory_is_refused_before_it_is_made(repeats):
    with pytest.raises(ConfigError, match="repeats must be within 1 and"):
        plan_sweep("study", [Configuration.of("idle")], repeats=repeats)
