"""GPUs as processors: power and peaks of the simulated boards, calibrated figures, bandwidth."""

from dataclasses import replace

import pytest

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.devices.simulated.load import calibrated_gpu
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS
from joulelab.hardware.processors import PROCESSORS, processor_of
from joulelab.hardware.scalars import calibrated

KEYS = sorted(GPUS)


def _large_kernel(key, pipe, *, flop_s, memory_s):
    """A kernel of about one second at the default clock, its traffic known."""
    spec = GPUS[key]
    kernel = KernelCost(
        name="large",
        pipe=pipe,
        flop=flop_s * spec.timing.pipe_efficiency[pipe] * spec.peak_flop_per_s(pipe),
        dram_b=memory_s * spec.timing.memory_efficiency * spec.memory_bandwidth_b_per_s,
    )
    return PhaseCost(phase="any", work=1.0, kernels=(kernel,))


def _closed_form_w(processor, kernel, clock_mhz, moved_b, duration_s):
    power, l2, dram = processor.power, processor.last_cache, processor.memory
    per_s_w = power.flop_j[kernel.pipe] * kernel.flop + l2.byte_j * moved_b
    clocked_w = clock_mhz / 1000 * (power.clock_w_per_ghz + power.busy_w_per_ghz)
    core_w = processor.voltage.at(clock_mhz) ** 2 * (clocked_w + per_s_w / duration_s)
    return power.constant_w + core_w + dram.byte_j * moved_b / duration_s


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("flop_s", "memory_s"), [(1.0, 1e-6), (1e-4, 1.0), (1e-3, 0.5)])
def test_estimator_and_simulator_give_the_same_power(key, share, flop_s, memory_s):
    spec, processor = GPUS[key], processor_of(GPUS[key])
    fastest = max(spec.flop_per_clock_per_sm, key=lambda name: (name == "tensor_fp16", name))
    pipe = fastest if memory_s < 1e-3 else "fp32"
    phase = _large_kernel(key, pipe, flop_s=flop_s, memory_s=memory_s)
    clock_mhz = spec.sm_clocks_mhz[round(share * (len(spec.sm_clocks_mhz) - 1))]

    simulated = PhaseModel(spec, phase).at(clock_mhz, spec.mem_clocks_mhz[0])

    moved_b = phase.dram_b
    if moved_b > spec.l2_b:
        intensity = spec.timing.cache_flop_per_b * (2 / 4) ** 1.5
        moved_b = max(moved_b, phase.flop / intensity)
    expected_w = _closed_form_w(
        processor, phase.kernels[0], clock_mhz, moved_b, simulated.duration_s
    )
    assert simulated.power_w == pytest.approx(expected_w, rel=0.01)


@pytest.mark.parametrize("key", KEYS)
def test_peaks_are_those_of_the_gpu(key):
    spec, processor = GPUS[key], processor_of(GPUS[key])

    for pipe in spec.flop_per_clock_per_sm:
        assert processor.peak_flop_per_s(pipe) == pytest.approx(spec.peak_flop_per_s(pipe))
        assert processor.peak_flop_per_s(pipe, 1000) == pytest.approx(
            spec.peak_flop_per_s(pipe, 1000)
        )


@pytest.mark.parametrize("key", ["h200_sxm", "a100_sxm"])
def test_a_calibrated_gpu_is_what_its_data_file_makes_of_it_and_the_same_one_each_time(key):
    spec = GPUS[key]

    assert calibrated_gpu(spec) == calibrated(processor_of(spec))
    assert calibrated_gpu(spec) is calibrated_gpu(spec)


def test_a_gpu_that_differs_from_another_of_its_key_has_figures_of_its_own():
    spec = GPUS["h200_sxm"]
    plain = replace(spec, figures={})

    assert calibrated_gpu(plain) == processor_of(plain)
    assert calibrated_gpu(plain) != calibrated_gpu(spec)


MIB = 2**20
INSTALLED_MIB = {
    "t4": 16384,
    "a40": 49152,
    "l4": 24576,
    "l40s": 49152,
    "rtx_3090": 24576,
    "rtx_4090": 24576,
    "rtx_6000_ada": 49152,
    "rtx_pro_6000": 98304,
    "rtx_a4000": 16384,
    "quadro_rtx_6000": 24576,
    "quadro_rtx_8000": 49152,
}
TYPICAL = {"Turing": 0.85}
"""Of GDDR6 without error correction; 0.9 on later boards."""


@pytest.mark.parametrize("key", INSTALLED_MIB)
def test_boards_that_lose_a_sixteenth_of_their_memory_lose_it_of_bandwidth(key):
    """Boards with error correction in line were given the bandwidth of boards without it.

    It costs bandwidth as it costs capacity; HBM has bits of its own for it.
    """
    board = PROCESSORS[key]
    left = board.memory.size_b / MIB / INSTALLED_MIB[key]
    corrected = 15 / 16 if left < 0.95 else 1.0

    typical = TYPICAL.get(board.architecture, 0.9)
    assert board.timing.memory_efficiency == pytest.approx(typical * corrected, rel=1e-3)
