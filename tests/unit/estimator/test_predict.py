"""Estimates against closed forms on a processor of round figures."""

from dataclasses import replace

import numpy as np
import pytest
from programs_by_hand import model, plain_processor, pointwise, product, with_timing

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.pricing.predict import estimate, totals
from joulelab.hardware.processors import PROCESSORS

CUBE = 8192
FLOP = 2.0 * CUBE**3


def group_of(*operators, processor=None, **changes):
    made = estimate(model(*operators), processor or plain_processor(), **changes)
    return made.phases[0].groups[0]


def test_a_product_takes_its_operations_over_the_peak():
    group = group_of(product(CUBE, CUBE, CUBE))

    assert group.bound == "compute"
    assert group.device_s == pytest.approx(FLOP / 100e12, rel=1e-3)
    assert group.energy.static_j == pytest.approx(150 * group.device_s)
    busy_and_operations_j = 100 * group.device_s + FLOP * 1e-12
    moved_j = 3 * 2 * CUBE**2 * 1e-10
    dynamic_j = group.energy.compute_j + group.energy.memory_j
    assert dynamic_j == pytest.approx(busy_and_operations_j + moved_j)


def test_a_stream_takes_its_bytes_over_the_bandwidth():
    group = group_of(pointwise(1e9))

    assert group.bound == "memory"
    assert group.moved_b == {"L2": 2e9, "DRAM": 2e9}
    assert group.device_s == pytest.approx(2e9 / 1e12)
    assert group.energy.memory_j == pytest.approx(2e9 * 1e-10 + 100 * group.device_s)
    assert group.energy.compute_j == 0


def test_a_convolution_that_stays_behind_takes_longer_by_its_efficiency():
    processor = with_timing(plain_processor(), kind_efficiency={"conv": 0.5})

    conv = group_of(product(CUBE, CUBE, CUBE, kind="conv"), processor=processor)

    assert conv.device_s == pytest.approx(2 * FLOP / 100e12, rel=1e-3)


def test_matrix_and_plain_units_work_side_by_side():
    products = product(CUBE, CUBE, CUBE)
    scaled = pointwise(1.0, flop=FLOP / 10, dtype="float16")  # as long on plain units

    gpu = group_of(products, scaled, mode="engine")
    cpu = group_of(products, scaled, mode="engine", processor=plain_processor(family="cpu"))

    assert gpu.device_s == pytest.approx(2**0.25 * FLOP / 100e12, rel=1e-2)
    assert cpu.device_s == pytest.approx(2 * FLOP / 100e12, rel=1e-2)


@pytest.mark.parametrize(("precision", "steps"), [("fp16", 1.0), ("tf32", 2**0.5)])
def test_a_convolution_sums_over_its_window_step_by_step(precision, steps):
    slow = with_timing(plain_processor(), window_s=1e-6)
    window = product(8, 8, 900, precision=precision, kind="conv", name="convolution")
    window = replace(window, pipe={"fp16": "tensor_fp16", "tf32": "tensor_tf32"}[precision])

    made = group_of(window, processor=slow)

    assert made.device_s == pytest.approx(900e-6 * steps, rel=1e-2)


def test_a_compiler_keeps_one_layout():
    windows = product(50176, 64, 576, kind="conv", name="convolution", read_b=6.4e6)
    changing = with_timing(plain_processor(), layout_efficiency=0.5)

    eager = group_of(windows, processor=changing)
    compiled = group_of(windows, processor=changing, mode="compiled")

    plain = group_of(windows)
    assert eager.device_s > 1.5 * plain.device_s
    assert compiled.device_s == plain.device_s


def test_a_kernel_takes_at_least_its_overhead():
    processor = with_timing(plain_processor(), kernel_overhead_s=5e-6)

    assert group_of(pointwise(1), processor=processor).device_s == pytest.approx(5e-6)


def test_a_launch_bound_program_pays_static_power_while_it_waits():
    processor = with_timing(
        plain_processor(), kernel_overhead_s=1e-6, eager_launch_s={"default": 10e-6}
    )

    made = estimate(model(*[pointwise(1)] * 100), processor)

    phase = made.phases[0]
    assert phase.latency_s == pytest.approx(100 * 10e-6)
    assert {group.bound for group in phase.groups} == {"launch"}
    assert phase.energy.static_j == pytest.approx(150 * phase.latency_s)


def test_launch_times_go_by_kind():
    processor = with_timing(plain_processor(), eager_launch_s={"default": 1e-3, "gemm": 5e-3})

    made = estimate(model(product(8, 8, 8), pointwise(1)), processor)

    assert made.latency_s == pytest.approx(6e-3, rel=1e-3)


def test_a_captured_graph_pays_the_time_between_kernels():
    processor = with_timing(
        plain_processor(),
        kernel_overhead_s=2e-6,
        eager_launch_s={"default": 10e-6},
        graph_launch_s=1e-6,
    )

    made = estimate(model(*[pointwise(1)] * 50), processor, mode="graph")

    assert made.latency_s == pytest.approx(50 * 3e-6)


def test_a_compiled_program_fuses_and_a_tpu_is_always_compiled():
    chain = model(product(64, 64, 64), pointwise(64 * 64 * 2), pointwise(64 * 64 * 2))
    gpu = plain_processor()

    made = [estimate(chain, gpu, mode=mode) for mode in ("eager", "compiled", "engine")]
    tpu = estimate(chain, replace(gpu, family="tpu"))

    groups = [[group.operators for group in one.phases[0].groups] for one in (*made, tpu)]
    assert groups[0] == [("mm",), ("relu",), ("relu",)]
    assert groups[1] == [("mm",), ("relu", "relu")]  # libraries multiply, and take nothing in
    assert groups[2] == groups[3] == [("mm", "relu", "relu")]
    assert [one.mode for one in (*made, tpu)] == ["eager", "compiled", "engine", "compiled"]


def test_a_cpu_waits_for_every_dispatch():
    processor = with_timing(plain_processor(), eager_launch_s={"default": 10e-6})

    made = estimate(model(*[pointwise(10e6)] * 10), replace(processor, family="cpu"))

    assert made.latency_s == pytest.approx(10 * (10e-6 + 20e6 / 1e12))


def test_the_cap_lowers_the_clock_until_power_meets_it():
    processor, point = plain_processor(), OperatingPoint(power_limit_w=300)

    group = group_of(product(CUBE, CUBE, CUBE), processor=processor, point=point)

    # 100 + f (50 + 100 + 100) plus a little of the memory, with f in GHz, and 1 % kept back
    assert group.bound == "power"
    assert group.power_w == pytest.approx(0.99 * 300, rel=1e-6)
    assert group.clock_mhz == pytest.approx(1e3 * (297 - 100) / 250, rel=0.03)
    assert group.device_s == pytest.approx(FLOP / 100e12 * 1000 / group.clock_mhz, rel=1e-3)


def test_a_cap_beyond_the_lowest_clock_stretches_time():
    processor = plain_processor(clocks_mhz=(900, 1000, 1000))

    group = group_of(
        product(CUBE, CUBE, CUBE), processor=processor, point=OperatingPoint(power_limit_w=250)
    )

    assert group.clock_mhz == 900
    assert group.power_w == pytest.approx(0.99 * 250)
    assert group.device_s > FLOP / 100e12 * 1000 / 900


def test_a_cap_below_what_waiting_draws_is_refused():
    processor = plain_processor(clocks_mhz=(900, 1000, 1000), power_limits_w=(50, 1000))

    with pytest.raises(ConfigError, match=r"draws 145.0 W while it waits"):
        group_of(pointwise(1), processor=processor, point=OperatingPoint(power_limit_w=100))


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (OperatingPoint(sm_clock_mhz=3000), "clock_mhz of NVIDIA H200 must be 345 to 1980"),
        (OperatingPoint(power_limit_w=100), "power_limit_w of NVIDIA H200 must be 200 to 700"),
        (OperatingPoint(mem_clock_mhz=2201), "mem_clock_mhz must be None"),
    ],
)
def test_a_point_off_the_range_is_refused_with_the_range(point, message):
    with pytest.raises(ConfigError, match=message):
        group_of(pointwise(1), processor=PROCESSORS["h200"], point=point)


def test_memory_slows_below_the_knee():
    processor = with_timing(plain_processor(), memory_knee_mhz=800)

    slow = group_of(pointwise(1e9), processor=processor, point=OperatingPoint(sm_clock_mhz=400))

    assert slow.device_s == pytest.approx(2 * 2e9 / 1e12)


def test_matrix_units_at_high_activity_lower_the_clock():
    processor = with_timing(plain_processor(), tensor_ceiling_start=0.5, tensor_ceiling_mhz=1000.0)

    group = group_of(product(CUBE, CUBE, CUBE), processor=processor)

    assert group.clock_mhz == pytest.approx(500, rel=1e-2)


def test_executions_multiply_and_groups_sum_to_the_phase():
    operators = (product(64, 64, 64), pointwise(1e6))
    once = estimate(model(*operators), PROCESSORS["h200"])
    thrice = estimate(model(*operators, count=3), PROCESSORS["h200"])

    groups = thrice.phases[0].groups
    assert thrice.energy_j == pytest.approx(3 * once.energy_j)
    assert thrice.latency_s == pytest.approx(3 * once.latency_s)
    assert sum(group.energy.total_j for group in groups) == pytest.approx(thrice.energy_j)
    assert sum(group.elapsed_s for group in groups) == pytest.approx(thrice.latency_s)


def test_zeros_leave_their_share_of_operation_energy():
    made = estimate(model(product(CUBE, CUBE, CUBE)), plain_processor())

    low_j, high_j = made.data_energy_j
    assert high_j == made.energy_j
    assert high_j - low_j == pytest.approx(0.75 * FLOP * 1e-12)


def reduced(size_b):
    return replace(pointwise(size_b, kind="copy", name="all_reduce"), flop=0.0)


def test_an_all_reduce_takes_a_ring_of_its_bytes():
    made = estimate(model(reduced(1e9)), plain_processor(), num_devices=4)

    group = made.phases[0].groups[0]
    sent_s = 2 * 3 / 4 * 1e9 / 1e11
    assert group.moved_b["link"] == 4 * 1.5e9
    assert group.device_s == pytest.approx(2e9 / 1e12 + sent_s, rel=1e-2)
    assert made.phases[0].power_w == pytest.approx(made.power_w / 4)


def test_energy_is_of_all_devices_and_time_of_one():
    one = estimate(model(product(CUBE, CUBE, CUBE), reduced(8)), plain_processor())
    two = estimate(model(product(CUBE, CUBE, CUBE), reduced(8)), plain_processor(), num_devices=2)

    assert two.latency_s == pytest.approx(one.latency_s, rel=1e-2)
    assert two.energy_j == pytest.approx(2 * one.energy_j, rel=1e-2)


def test_several_devices_need_a_shared_program_and_a_link():
    with pytest.raises(ConfigError, match="tensor_parallel"):
        estimate(model(pointwise(8)), plain_processor(), num_devices=2)
    with pytest.raises(ConfigError, match="no link to peers"):
        estimate(model(reduced(8)), plain_processor(link_b_per_s=0.0), num_devices=2)
    with pytest.raises(ConfigError, match="at least 1"):
        estimate(model(reduced(8)), plain_processor(), num_devices=0)


def test_operators_without_formula_are_named_with_their_share_of_bytes():
    unknown = replace(pointwise(25, kind="gemm", name="lstm"), has_formula=False)
    net = model(pointwise(75), unknown)

    assert estimate(net, plain_processor()).without_formula == {"lstm": 0.25}
    with pytest.raises(ConfigError, match=r"lstm \(25.0% of all bytes\)"):
        estimate(net, plain_processor(), strict=True)


def test_a_model_that_does_not_fit_is_estimated_and_says_so():
    assert not estimate(model(pointwise(8), parameter_b=1e12), plain_processor()).fits
    assert estimate(model(pointwise(8), parameter_b=1e9), plain_processor()).fits


def test_totals_are_those_of_the_estimates():
    net = model(product(512, 512, 512), pointwise(1e6), product(64, 64, 64), count=2)
    devices = [PROCESSORS["h200"], PROCESSORS["a100"]]
    points = [OperatingPoint(), OperatingPoint(sm_clock_mhz=900, power_limit_w=300)]

    found = totals(net, devices, points=points)

    for i, device in enumerate(devices):
        for j, point in enumerate(points):
            made = estimate(net, device, point=point)
            assert found.total_latency_s[i, j] == pytest.approx(made.latency_s)
            assert found.total_energy_j[i, j] == pytest.approx(made.energy_j)


def test_energy_has_an_optimal_clock_between_the_ends():
    clocks = np.arange(345, 1981, 15)
    points = [OperatingPoint(sm_clock_mhz=int(clock)) for clock in clocks]

    found = totals(model(product(4096, 4096, 4096)), [PROCESSORS["h200"]], points=points)

    best = int(clocks[found.total_energy_j[0].argmin()])
    assert 700 < best < 1300


@pytest.mark.parametrize(
    ("device", "clock_mhz", "measured_s"),
    [("h100_sxm", 1950, 90.54e-3), ("h200_sxm", 1955, 89.07e-3)],
)
def test_products_of_a_vision_transformer_take_what_its_profile_shows(
    device, clock_mhz, measured_s
):
    """ViT-B/16, 128 images in fp32 (experiments/results/h100_kernels, h200_kernels)."""
    far = replace(PROCESSORS[device], power_limits_w=(200, 1e4), default_power_limit_w=1e4)
    tokens = 128 * 197
    layer = [
        product(tokens, n, k, precision="fp32")
        for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072))
    ]

    made = estimate(
        model(*layer, precision="fp32"), far, point=OperatingPoint(sm_clock_mhz=clock_mhz)
    )

    assert 12 * made.latency_s == pytest.approx(measured_s, rel=0.03)


def test_a_bf16_product_on_an_h200_draws_what_was_measured():
    """655 TFLOP/s at 1425 to 1455 MHz and 688 to 695 W, on one board at the driver's clocks.

    It ran alone, over and over, and so has no class of kernels within networks.
    """
    alone = product(CUBE, CUBE, CUBE, precision="bf16", name="gemm")
    big = model(alone, precision="bf16")

    group = estimate(big, PROCESSORS["h200"]).phases[0].groups[0]

    assert FLOP / group.device_s / 1e12 == pytest.approx(655, rel=0.05)
    assert group.power_w == pytest.approx(692, rel=0.02)
    assert group.clock_mhz == pytest.approx(1440, rel=0.05)


def test_the_cap_counts_what_the_board_waits_between_kernels():
    """A board that is busy for a tenth of the time was taken to meet its limit in that tenth."""
    processor = with_timing(plain_processor(), eager_launch_s={"default": 10 * FLOP / 100e12})
    cubes, point = model(*[product(CUBE, CUBE, CUBE)] * 4), OperatingPoint(power_limit_w=300)

    made = estimate(cubes, processor, point=point)

    group = made.phases[0].groups[-1]
    assert group.power_w > 300  # while it runs
    assert made.power_w < 0.7 * 300
    assert group.bound == "launch"
    assert group.clock_mhz == 1000
    assert made.phases[0].throttled_fraction == 0


@pytest.mark.parametrize("limit_w", [205, 220, 235, 245])
def test_the_mean_with_waiting_meets_the_cap_where_it_binds(limit_w: float):
    """Half busy, half waiting: the clock falls until the mean of both is what the limit holds."""
    processor = with_timing(plain_processor(), eager_launch_s={"default": 2 * FLOP / 100e12})
    cubes = model(*[product(CUBE, CUBE, CUBE)] * 40)

    free = estimate(cubes, processor)
    made = estimate(cubes, processor, point=OperatingPoint(power_limit_w=limit_w))

    assert free.power_w == pytest.approx(250, rel=0.02)
    assert made.power_w == pytest.approx(0.99 * limit_w, rel=1e-6)
    assert made.latency_s >= free.latency_s * (1 - 1e-9)
