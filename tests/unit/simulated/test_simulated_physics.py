"""Time and power of a phase against closed forms and laws that must hold everywhere."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_lab import copy, gemm, settled, typical, wait

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import roofline_s
from joulelab.devices.simulated.board import History
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS

KEYS = sorted(GPUS)
SECONDS = st.floats(1e-9, 1e3)


@given(SECONDS, SECONDS)
def test_a_roofline_lies_between_the_longer_part_and_their_sum(core_s, memory_s):
    total_s = roofline_s(core_s, memory_s)

    assert max(core_s, memory_s) <= total_s * (1 + 1e-12)
    assert total_s <= (core_s + memory_s) * (1 + 1e-12)


def test_a_large_product_takes_its_operations_over_the_reachable_peak():
    spec = GPUS["h200_sxm"]
    model = PhaseModel(spec, gemm(16384))

    reached = 2 * 16384**3 / (0.833 * spec.peak_flop_per_s("tensor_bf16", 990))

    assert model.at(990, 3201).duration_s == pytest.approx(reached, rel=1e-3)


def test_time_of_a_core_bound_phase_goes_with_the_inverse_of_the_clock():
    model = PhaseModel(GPUS["h200_sxm"], gemm(16384))

    ratio = model.at(990, 3201).duration_s / model.at(1980, 3201).duration_s

    assert ratio == pytest.approx(2.0, rel=1e-2)


def test_small_kernels_wait_for_the_host():
    """GPM on an H200 whose host takes 13.1 us to launch any kernel."""
    spec = replace(GPUS["h200_sxm"], figures={})  # without what another host takes by kind
    point = PhaseModel(spec, gemm(1024, count=1000)).at(1980, 3201)

    assert point.duration_s == pytest.approx(1000 * spec.timing.launch_s("default"))
    assert point.activity.gr_engine_active == pytest.approx(0.498, abs=0.02)
    assert point.activity.sm_active == pytest.approx(0.289, abs=0.03)


def test_a_product_beyond_the_cache_reads_its_operands_again():
    """GPM on an H200: 17.1 % of the bandwidth in a bf16 GEMM of 8192."""
    point = PhaseModel(GPUS["h200_sxm"], gemm(8192)).at(1455, 3201)

    assert point.activity.dram_active == pytest.approx(0.171, abs=0.01)


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_higher_clock_is_never_slower_and_never_draws_less(key, data):
    spec = GPUS[key]
    pipe = data.draw(st.sampled_from(sorted(spec.flop_per_clock_per_sm)))
    kernel = KernelCost(
        name="any",
        pipe=pipe,
        flop=data.draw(st.floats(0, 1e14)),
        dram_b=data.draw(st.floats(1, 1e11)),
        count=data.draw(st.integers(1, 1000)),
    )
    phase = PhaseCost(phase="any", work=1.0, kernels=(kernel,), wait_s=0.001)
    model = PhaseModel(spec, phase)

    points = [model.at(clock, spec.mem_clocks_mhz[0]) for clock in reversed(spec.sm_clocks_mhz)]

    for slower, faster in pairwise(points):
        assert faster.duration_s <= slower.duration_s * (1 + 1e-12)
        assert faster.power_w >= slower.power_w * (1 - 1e-12)
    assert all(0 <= (p.activity.sm_active or 0) <= 1 for p in points)


@pytest.mark.parametrize("key", KEYS)
def test_power_stays_at_the_cap_or_below_once_the_control_has_settled(tmp_path, key):
    device = typical(tmp_path, key)
    low_w, high_w = GPUS[key].power_limits_w
    for limit_w in (high_w, (low_w + 2 * high_w) / 3):
        device.apply(OperatingPoint(power_limit_w=limit_w))

        seen = settled(device, gemm(8192, "fp32"), after_s=3.0)

        assert seen.power_w <= limit_w


@given(st.lists(st.tuples(st.floats(1e-3, 2.0), st.floats(10, 900)), min_size=2, max_size=20))
def test_energy_of_a_history_is_additive_over_adjoining_intervals(steps):
    history, now_s, used_j = History(0.0, 50.0, 10.0), 0.0, 0.0
    for step_s, power_w in steps:
        now_s += step_s
        used_j += step_s * power_w
        history.append(now_s, step_s * power_w, 0.0)

    split_s = now_s - steps[-1][0] / 3
    whole_j = history.power_w(now_s, steps[-1][0]) * steps[-1][0]
    parts_j = history.power_w(now_s, now_s - split_s) * (now_s - split_s)
    parts_j += history.power_w(split_s, steps[-1][0] - (now_s - split_s)) * (
        steps[-1][0] - (now_s - split_s)
    )

    assert history.energy_j(now_s) == pytest.approx(used_j)
    assert parts_j == pytest.approx(whole_j, rel=1e-6)


def test_temperature_settles_at_the_sum_of_its_resistances(tmp_path):
    device = typical(tmp_path, "a100_pcie")
    device.apply(OperatingPoint(sm_clock_mhz=1005))
    thermal = GPUS["a100_pcie"].thermal

    seen = settled(device, copy(), after_s=900.0)

    expected_c = thermal.ambient_c + sum(thermal.resistance_k_per_w) * seen.power_w
    assert seen.state.temperature_c == pytest.approx(expected_c, abs=1.0)


def test_leakage_grows_with_temperature_and_the_voltage(tmp_path):
    device = typical(tmp_path, "a100_pcie")
    device.apply(OperatingPoint(sm_clock_mhz=1410))
    device.clock.sleep_s(1.0)
    device.play(wait(0.1))
    device.clock.sleep_s(1.0)
    cold_w = device.read_power_w()
    device.play(gemm(8192, "fp32"))
    device.clock.sleep_s(300.0)
    device.play(wait(0.1))
    device.clock.sleep_s(1.0)

    warm_w = device.read_power_w()

    assert 1.0 < warm_w - cold_w < 8.0


def test_a_rested_device_draws_its_bare_idle_power_at_its_low_clock(tmp_path):
    for key in KEYS:
        device = typical(tmp_path, key)
        device.clock.sleep_s(30.0)

        assert device.read_power_w() == pytest.approx(GPUS[key].power.idle_w, rel=0.02)
        assert device.read_state().sm_clock_mhz == GPUS[key].idle_clock_mhz
