"""Power modes of Jetson modules clamp clocks, units, memory and budget as nvpmodel does."""

import pytest

from joulelab import estimator
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.hardware.power_modes import find_processor, modes_of
from joulelab.hardware.processors import PROCESSORS

AGX = PROCESSORS["jetson_orin_agx"]


def test_modes_are_named_by_the_module_that_has_them():
    assert modes_of(AGX) == ("maxn", "15w", "30w", "50w")
    assert modes_of(PROCESSORS["jetson_orin_agx_cpu"]) == modes_of(AGX)
    assert modes_of(PROCESSORS["l4"]) == ()


def test_a_mode_has_its_own_units_clock_memory_and_budget():
    found = find_processor("jetson_orin_agx:15w")

    assert (found.num_cores, found.default_clock_mhz) == (6, 408)
    assert found.default_power_limit_w == found.power_limits_w[1] == 15
    assert found.memory.bandwidth_b_per_s == pytest.approx(204.8e9 * 2133 / 3199)
    assert found.peak_flop_per_s("fp32") == pytest.approx(
        AGX.peak_flop_per_s("fp32") * 6 / 16 * 408 / 1300
    )
    assert found.last_cache.size_b == AGX.last_cache.size_b
    assert "nvpmodel_p3701" in found.figures["power_mode.gpu_mhz"].source


def test_the_cores_of_a_cpu_that_are_offline_do_not_compute():
    whole, found = (find_processor(f"jetson_orin_agx_cpu:{mode}") for mode in ("maxn", "15w"))

    assert (whole.num_cores, found.num_cores) == (12, 4)
    assert found.peak_flop_per_s("fp32") == pytest.approx(4 * 16 * 1113.6e6)


def test_launches_take_as_long_as_the_clock_of_the_cpu_says():
    launches = {
        mode: find_processor(f"jetson_orin_agx:{mode}").timing.launch_s("default")
        for mode in ("15w", "50w")
    }

    assert launches["50w"] == AGX.timing.launch_s("default")  # in which they were timed
    assert launches["15w"] / launches["50w"] == pytest.approx(1497.6 / 1113.6)


def test_a_narrower_mode_is_slower_and_draws_no_more_than_its_budget():
    pytest.importorskip("torch")
    found = {
        mode: estimator.estimate("resnet50", device=f"jetson_orin_agx:{mode}", batch=8)
        for mode in ("15w", "30w", "50w")
    }

    assert found["15w"].latency_s > found["30w"].latency_s > found["50w"].latency_s
    assert all(each.power_w <= float(mode.rstrip("w")) for mode, each in found.items())


def test_a_mode_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(UnknownNameError, match="30w"):
        find_processor("jetson_orin_agx:20w")
    with pytest.raises(ConfigError, match="no power modes"):
        find_processor("l4:15w")
