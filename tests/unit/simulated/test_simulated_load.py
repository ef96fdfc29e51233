"""What kernels take of a simulated GPU, against closed forms and against the estimator."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.core.power_law import (
    EAGER_GAP_S,
    HOST_CALL_SHARE,
    LOOP_LAUNCH_SHARE,
    PLAIN_CONVOLUTION_SHARE,
    SCALED_PRODUCT_LAUNCHES,
    STEP_S,
)
from joulelab.devices.simulated.load import Load
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS
from joulelab.hardware.processors import PROCESSORS, processor_of
from joulelab.hardware.scalars import calibrated

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from scaled_boards import scaled

H200 = GPUS["h200_sxm"]
SMALL = KernelCost(name="elementwise", pipe="fp32", flop=1e3, dram_b=1e4)


def fitted_host(key):
    """Return the times of the host with which the GPU's coefficients were fitted."""
    return calibrated(processor_of(GPUS[key])).timing


def phase(*kernels, **changes):
    return PhaseCost(phase="any", work=1.0, kernels=kernels, **changes)


def product(m, n, k, **changes):
    return KernelCost(
        name="gemm",
        pipe="tensor_bf16",
        flop=2.0 * m * n * k,
        dram_b=2.0 * (m * k + k * n + m * n),
        weight_b=2.0 * k * n,
        written_b=2.0 * m * n,
        dtype="bfloat16",
        shape=(1, m, n, k),
        **changes,
    )


@pytest.mark.parametrize("key", sorted(GPUS))
def test_the_host_takes_for_each_kind_of_kernel_what_the_data_file_says(key):
    kernels = [replace(SMALL, name=name, count=7) for name in ("elementwise", "norm", "copy")]

    load = Load(GPUS[key], phase(*kernels))

    expected_s = sum(7 * fitted_host(key).launch_s(kernel.name) for kernel in kernels)
    assert load.host_s == pytest.approx(expected_s)


@given(num_calls=st.integers(0, 10**6))
def test_calls_in_python_take_a_share_of_a_launch_each(num_calls):
    alone, reached = Load(H200, phase(SMALL)), Load(H200, phase(SMALL, host_calls=num_calls))

    launch_s = fitted_host("h200_sxm").launch_s("default")
    assert reached.host_s - alone.host_s == pytest.approx(
        num_calls * HOST_CALL_SHARE * launch_s, abs=1e-12
    )


def test_kernels_of_one_graph_do_not_wait_for_the_host():
    kernels = replace(SMALL, count=1000)
    eager = PhaseModel(H200, phase(kernels)).at(1980, 3201)
    graph = PhaseModel(H200, phase(kernels, num_graphs=1)).at(1980, 3201)

    assert Load(H200, phase(kernels, num_graphs=1)).host_s == pytest.approx(
        fitted_host("h200_sxm").launch_s("default")
    )
    assert graph.duration_s < 0.2 * eager.duration_s
    assert graph.activity.gr_engine_active == pytest.approx(1.0)


def test_a_thin_product_reads_its_weights_from_memory_at_the_bandwidth_of_a_stream():
    kernel = product(1, 16384, 16384)
    times = Load(H200, phase(kernel)).at(1980)

    streamed = H200.timing.memory_efficiency * H200.memory_bandwidth_b_per_s
    assert times.kernels_s == pytest.approx(kernel.weight_b / streamed, rel=0.01)


def test_weights_of_a_model_that_fits_the_cache_do_not_come_from_memory():
    kernel = product(1, 1024, 1024)

    few = pytest.approx(0.0, abs=kernel.written_b)
    assert Load(H200, phase(kernel, parameter_b=2e6)).memory_b == few
    assert Load(H200, phase(kernel, parameter_b=2e9)).memory_b - kernel.weight_b == few


def test_bytes_read_again_take_time_at_the_pace_of_the_last_cache_and_pass_none():
    kernel = product(512, 4096, 4096)
    once = Load(H200, phase(kernel))
    again = Load(H200, phase(replace(kernel, reread_b=1e10)))

    assert again.memory_b == once.memory_b
    assert again.cache_b == once.cache_b
    assert again.at(1980).kernels_s > 1e10 / PROCESSORS["h200_sxm"].last_cache.bandwidth_b_per_s


def test_a_product_that_fills_few_units_keeps_few_of_them_active():
    times = Load(H200, phase(product(64, 64, 64))).at(1980)

    assert times.filled_s < 0.05 * times.kernels_s


def test_a_slower_memory_clock_slows_what_the_memory_bounds():
    load = Load(H200, phase(product(1, 16384, 16384)))

    assert load.at(1980, memory_slowdown=2.0).kernels_s == pytest.approx(
        2 * load.at(1980).kernels_s, rel=0.01
    )


def test_launching_one_kernel_again_and_again_takes_less_than_launching_it_among_others():
    again = Load(H200, phase(replace(SMALL, count=9)))
    among = Load(H200, phase(replace(SMALL, count=9), replace(SMALL, flop=2e3, count=9)))

    assert again.host_s == pytest.approx(LOOP_LAUNCH_SHARE * among.host_s / 2)


def test_slower_python_lengthens_what_lies_between_launches_and_not_a_loop_of_one():
    slow = scaled(H200, {"host_python": 2.0})
    loop, network = phase(SMALL), phase(SMALL, replace(SMALL, flop=2e3), host_calls=100)
    calls_s = 100 * HOST_CALL_SHARE * fitted_host("h200_sxm").launch_s("default")
    launches_s = Load(H200, network).host_s - calls_s

    assert Load(slow, loop).host_s == Load(H200, loop).host_s
    assert Load(slow, network).host_s == pytest.approx(
        (2 - LOOP_LAUNCH_SHARE) * launches_s + 2 * calls_s
    )


def test_a_product_of_fp8_takes_the_host_longer_than_one_of_bf16():
    bf16 = product(1024, 1024, 1024)
    fp8 = replace(bf16, pipe="tensor_fp8", dtype="float8_e4m3fn")

    ratio = Load(H200, phase(fp8)).host_s / Load(H200, phase(bf16)).host_s

    assert ratio == pytest.approx(SCALED_PRODUCT_LAUNCHES)


def test_kernels_of_a_queue_have_a_gap_that_those_of_a_graph_lack():
    kernel = replace(SMALL, count=50)

    queue = Load(H200, phase(kernel)).at(1980)
    graph = Load(H200, phase(kernel, num_graphs=1)).at(1980)

    assert queue.overhead_s - graph.overhead_s == pytest.approx(50 * EAGER_GAP_S)


@pytest.mark.parametrize(("name", "where"), [("norm", "overhead_s"), ("elementwise", "waits_s")])
def test_threads_that_wait_for_each_load_take_a_time_for_each_step(name, where):
    few, many = (
        Load(H200, phase(replace(SMALL, name=name, steps=steps, count=2))).at(1980)
        for steps in (10.0, 1010.0)
    )

    assert getattr(many, where) - getattr(few, where) == pytest.approx(2 * 1000 * STEP_S)
    assert many.kernels_s == few.kernels_s


def test_loops_that_wait_draw_the_power_of_waiting():
    """LSTMs and bicubic interpolation in 16 bits on an H200: 119 to 147 W, 118 W without."""
    loop = product(64, 1024, 1024)
    waiting = PhaseModel(H200, phase(replace(loop, steps=1e5))).at(1980, 3201)
    idle = PhaseModel(H200, phase(wait_s=1.0)).at(1980, 3201)

    assert waiting.activity.gr_engine_active == pytest.approx(1.0)
    assert waiting.power_w == pytest.approx(idle.power_w, rel=0.05)


def test_convolutions_on_plain_units_stay_further_behind_products_than_those_of_tf32():
    shape = (1, 65536, 256, 2304)
    plain = KernelCost(
        name="conv", pipe="fp32", flop=7.7e10, dram_b=1e6, dtype="float32", shape=shape
    )
    gemm = replace(plain, name="gemm")
    processor = PROCESSORS["h200_sxm"]

    ratio = Load(H200, phase(gemm)).at(1980).kernels_s / Load(H200, phase(plain)).at(1980).kernels_s

    measured = processor.timing.efficiency(("conv",), "float32")
    assert ratio == pytest.approx(PLAIN_CONVOLUTION_SHARE * measured, rel=1e-3)


def test_elementwise_kernels_of_a_network_may_be_slower_than_a_stream():
    copy = KernelCost(name="copy", pipe="fp32", flop=0.0, dram_b=4e9)
    slow = scaled(H200, {"elementwise": 2.0})
    network = phase(copy, replace(copy, dram_b=2e9))

    ratio = Load(slow, network).at(1980).kernels_s / Load(H200, network).at(1980).kernels_s

    assert ratio == pytest.approx(2.0)
    assert Load(slow, phase(copy)).at(1980) == Load(H200, phase(copy)).at(1980)


def test_host_and_device_that_take_alike_delay_each_other_unless_all_kernels_are_equal():
    equal = Load(H200, phase(SMALL))
    various = Load(H200, phase(SMALL, replace(SMALL, flop=2e3)))

    assert equal.elapsed_s(equal.host_s) == equal.host_s
    assert various.elapsed_s(various.host_s) == pytest.approx(2**0.25 * various.host_s)
