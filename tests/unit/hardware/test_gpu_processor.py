"""GPUs as processors: the same power and peaks as the simulated boards."""

import pytest

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS
from joulelab.hardware.processors import processor_of

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
