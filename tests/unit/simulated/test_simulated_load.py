"""What kernels take of a simulated GPU, against closed forms and against the estimator."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.core.physics import HOST_CALL_SHARE
from joulelab.devices.simulated.load import Load
from joulelab.devices.simulated.physics import PhaseModel
from joulelab.hardware import GPUS
from joulelab.hardware.processors import PROCESSORS

H200 = GPUS["h200_sxm"]
SMALL = KernelCost(name="elementwise", pipe="fp32", flop=1e3, dram_b=1e4)


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
def test_the_host_takes_for_each_kind_of_kernel_what_the_estimator_says(key):
    kernels = [replace(SMALL, name=name, count=7) for name in ("elementwise", "norm", "copy")]

    load = Load(GPUS[key], phase(*kernels))

    expected_s = sum(7 * PROCESSORS[key].timing.launch_s(kernel.name) for kernel in kernels)
    assert load.host_s == pytest.approx(expected_s)


@given(num_calls=st.integers(0, 10**6))
def test_calls_in_python_take_a_share_of_a_launch_each(num_calls):
    alone, reached = Load(H200, phase(SMALL)), Load(H200, phase(SMALL, host_calls=num_calls))

    launch_s = PROCESSORS["h200_sxm"].timing.launch_s("default")
    assert reached.host_s - alone.host_s == pytest.approx(
        num_calls * HOST_CALL_SHARE * launch_s, abs=1e-12
    )


def test_kernels_of_one_graph_do_not_wait_for_the_host():
    kernels = replace(SMALL, count=1000)
    eager = PhaseModel(H200, phase(kernels)).at(1980, 3201)
    graph = PhaseModel(H200, phase(kernels, num_graphs=1)).at(1980, 3201)

    assert Load(H200, phase(kernels, num_graphs=1)).host_s == pytest.approx(
        PROCESSORS["h200_sxm"].timing.launch_s("default")
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

    assert Load(H200, phase(kernel, parameter_b=2e6)).memory_b == 0.0
    assert Load(H200, phase(kernel, parameter_b=2e9)).memory_b == kernel.weight_b


def test_bytes_read_again_pass_the_last_cache_alone():
    kernel = product(512, 4096, 4096)
    once = Load(H200, phase(kernel))
    again = Load(H200, phase(replace(kernel, reread_b=1e10)))

    assert again.memory_b == once.memory_b
    assert again.cache_b - once.cache_b == pytest.approx(1e10)
    assert again.at(1980).kernels_s > 1e10 / PROCESSORS["h200_sxm"].last_cache.bandwidth_b_per_s


def test_a_product_that_fills_few_units_keeps_few_of_them_active():
    times = Load(H200, phase(product(64, 64, 64))).at(1980)

    assert times.filled_s < 0.05 * times.kernels_s


def test_a_slower_memory_clock_slows_what_the_memory_bounds():
    load = Load(H200, phase(product(1, 16384, 16384)))

    assert load.at(1980, memory_slowdown=2.0).kernels_s == pytest.approx(
        2 * load.at(1980).kernels_s, rel=0.01
    )
