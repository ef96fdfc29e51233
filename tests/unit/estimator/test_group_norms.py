"""How long groups of channels take to be summed up, against closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from joulelab.core.power_law import STEP_S
from joulelab.estimator.pricing.power import settle
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.table import tabulate
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.program import Operator, Program

H200 = PROCESSORS["h200_sxm"]
CACHED_S = 454 / 1.98e9
"""What a step waits for where the last cache answers, at the default clock."""


def costs(images, elements, processor=H200, groups=32):
    """Return what it takes to normalise ``images``, each of ``groups`` of so many elements."""
    result_b, each_b = 2.0 * images * groups * elements, 2.0 * images * groups
    norm = Operator(
        name="native_group_norm",
        kind="norm",
        dtype="bfloat16",
        pipe="fp32",
        flop=0.0,
        read_b=result_b,
        weight_b=0.0,
        written_b=result_b,
        outputs=(1, 2, 3),
        outputs_b=(result_b, each_b, each_b),
    )
    program = Program(operators=(norm,), live_b=(0.0,), parameter_b=0.0, input_b=0.0)
    return group_costs(tabulate(program, ((0,),)), processor)


def test_threads_of_a_single_image_wait_for_each_element_that_they_add():
    few, many = (costs(1, 512 * steps) for steps in (2, 10))

    missed = [2 * 2 * 32 * 512 * steps / H200.last_cache.size_b for steps in (2, 10)]
    waits_s = [
        steps * ((1 - share) * CACHED_S + share * STEP_S)
        for steps, share in zip((2, 10), missed, strict=True)
    ]
    took_s = [one.fixed_s[0] + one.turns_s_mhz[0] / 1980 for one in (few, many)]
    assert took_s[1] - took_s[0] == pytest.approx(waits_s[1] - waits_s[0])


def test_threads_of_an_image_beyond_the_cache_wait_for_the_memory():
    one, twice = (costs(1, elements) for elements in (1 << 21, 1 << 22))

    took_s = [found.fixed_s[0] + found.turns_s_mhz[0] / 1980 for found in (one, twice)]
    assert took_s[1] - took_s[0] == pytest.approx(4096 * STEP_S)


def test_warps_of_many_images_take_turns():
    found = costs(128, 512 * 24)

    warps = 128 * 32 * 16 / 132  # of each core
    assert found.turns_s_mhz[0] == pytest.approx(1e-6 * warps * (24 * 14.4 + 74))
    assert found.fixed_s[0] == H200.timing.least_s["group_norm"]  # none waits for the memory


def test_small_groups_take_one_warp_each():
    small, large = costs(128, 256), costs(128, 512)

    assert small.turns_s_mhz[0] * 1e6 == pytest.approx(128 * 32 / 132 * (8 * 14.4 + 74))
    assert small.turns_s_mhz[0] < large.turns_s_mhz[0] / 7


def test_turns_follow_the_clock_and_keep_the_units_busy():
    found = costs(128, 512 * 24)
    without = replace(found, turns_s_mhz=np.zeros(1))

    taken, spared = (
        settle(each, H200, np.array([990.0, 1980.0]), np.full(2, 1e9)) for each in (found, without)
    )

    turns_s = (taken.device_s - spared.device_s)[:, 0]
    assert turns_s == pytest.approx(found.turns_s_mhz[0] / np.array([990, 1980]))
    busy_w = H200.power.busy_w_per_ghz * H200.voltage.at(np.array([990.0, 1980.0])) ** 2
    dynamic_j = (taken.compute_j + taken.memory_j - spared.compute_j - spared.memory_j)[:, 0]
    assert dynamic_j == pytest.approx(busy_w * np.array([0.99, 1.98]) * turns_s)


def test_other_processors_have_no_blocks_of_threads():
    assert costs(128, 512 * 24, PROCESSORS["xeon_8490h"]).turns_s_mhz[0] == 0
