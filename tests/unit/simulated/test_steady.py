"""What a phase comes to on a simulated board, without a device or a clock."""

import pytest

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.engine import steady_load
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS

H200 = GPUS["h200_sxm"]
COPY = PhaseCost(
    phase="copy", work=8.0, kernels=(KernelCost(name="copy", pipe="fp32", flop=0, dram_b=8e9),)
)
GEMM = PhaseCost(
    phase="gemm",
    work=1.1,
    kernels=(KernelCost(name="gemm", pipe="tensor_bf16", flop=1.1e12, dram_b=4e8),),
)


def test_below_the_power_cap_it_is_the_phase_at_the_default_clock():
    point = PhaseModel(H200, COPY).at(H200.default_clock_mhz, H200.mem_clocks_mhz[0])

    load = steady_load(H200, COPY)

    assert load.clock_mhz == H200.default_clock_mhz
    assert load.time_per_unit_s == pytest.approx(point.duration_s / COPY.work, rel=1e-6)
    assert load.power_w == pytest.approx(point.power_w, rel=0.05)  # leakage grows as it warms
    assert load.energy_per_unit_j == pytest.approx(load.power_w * load.time_per_unit_s)


def test_at_the_power_cap_the_clock_drops_and_the_power_stays_at_the_limit():
    load = steady_load(H200, GEMM)

    assert load.clock_mhz < H200.default_clock_mhz
    assert 0.95 < load.power_w / H200.default_power_limit_w <= 1.0


def test_zeros_take_less_power_than_random_data():
    assert steady_load(H200, GEMM, data="zeros").power_w < 0.7 * steady_load(H200, GEMM).power_w


def test_a_board_of_higher_voltage_takes_more():
    thirsty = Board(seed=0, voltage_scale=1.05)

    assert steady_load(H200, COPY, board=thirsty).power_w > steady_load(H200, COPY).power_w


def test_waiting_takes_its_time_and_idle_power():
    wait = PhaseCost(phase="idle", work=2.0, wait_s=2.0)

    load = steady_load(H200, wait)

    assert load.time_per_unit_s == pytest.approx(1.0)
    assert 110 < load.power_w < 135  # one H200 read 120 to 126 W at its highest clock
