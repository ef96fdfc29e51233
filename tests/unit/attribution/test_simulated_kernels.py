"""Kernels of simulated GPUs: what each takes, and that they sum to the phase."""

from dataclasses import replace

import numpy as np
import pytest

from joulelab.attribution.simulated_source import one_execution
from joulelab.attribution.traced import traced_program
from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.errors import ConfigError
from joulelab.hardware import GPUS
from joulelab.workloads import WORKLOADS


@pytest.mark.parametrize("gpu", ["v100_sxm2", "a100_sxm", "h100_sxm"])
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("context", [0.0, 0.05])
def test_kernels_and_static_power_sum_to_the_energy_of_the_phase(gpu, share, context):
    spec = GPUS[gpu]
    phase = traced_program(WORKLOADS["bloom"].from_knobs({"precision": "fp16", "batch": 8}))[0]
    cost = one_execution(phase)
    factors = Board(seed=3, context=context).among_others(cost.kernels)
    model = PhaseModel(spec, cost, voltage_scale=1.02, factors=factors)
    clock = min(spec.sm_clocks_mhz, key=lambda mhz: abs(mhz - share * max(spec.sm_clocks_mhz)))
    point = model.at(clock, spec.mem_clocks_mhz[0])
    kernels = model.kernels_at(clock, spec.mem_clocks_mhz[0])

    static_j = model.waiting_w(clock) * point.duration_s
    assert static_j + kernels.dynamic_j.sum() == pytest.approx(point.power_w * point.duration_s)
    assert kernels.device_s.sum() <= point.duration_s
    assert kernels.device_s.sum() == pytest.approx(
        (point.activity.gr_engine_active or 0.0) * point.duration_s
    )


def test_a_kernel_takes_another_energy_among_others_than_alone():
    kernels = [KernelCost(name=str(n), pipe="fp32", flop=1e9, dram_b=1e6) for n in range(400)]
    many = replace(kernels[7], count=5)
    board = Board(seed=3, context=0.05)
    factors = board.among_others([*kernels, many])

    assert factors.std() == pytest.approx(0.05, rel=0.1)
    assert factors[400] == factors[7]
    assert (Board(seed=4, context=0.05).among_others(kernels) != factors[:400]).all()
    assert board.among_others([kernels[7], many]) is None
    assert Board(seed=3).among_others(kernels) is None


def test_a_slower_memory_clock_slows_the_kernels_that_read():
    spec = GPUS["v100_pcie"]
    phase = traced_program(WORKLOADS["bloom"].from_knobs({"precision": "fp16"}))[1]
    model = PhaseModel(spec, one_execution(phase))
    clock, fast, slow = max(spec.sm_clocks_mhz), spec.mem_clocks_mhz[0], spec.mem_clocks_mhz[-1]
    ratios = model.kernels_at(clock, slow).device_s / model.kernels_at(clock, fast).device_s

    assert (ratios >= 1 - 1e-9).all()
    assert slow == fast or ratios.max() > 1


def test_a_phase_that_waits_has_no_kernels():
    waiting = PhaseModel(GPUS["a100_sxm"], PhaseCost(phase="idle", work=1.0, wait_s=1.0))

    with pytest.raises(ConfigError, match="no kernels"):
        waiting.kernels_at(1410, 1593)
    assert np.isfinite(waiting.waiting_w(1410))
