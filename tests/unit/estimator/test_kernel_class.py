"""What kernels within networks count as, and what that makes of their times."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from programs_by_hand import model
from torch import nn

from joulelab.analysis.estimates.wording import host_words
from joulelab.core.point import OperatingPoint
from joulelab.estimator import estimate as estimate_by_name
from joulelab.estimator.pricing.kernel_class import kernel_class
from joulelab.estimator.pricing.kernel_count import num_kernels
from joulelab.estimator.pricing.predict import estimate
from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.run import conditions, plan, run
from joulelab.estimator.pricing.table import tabulate
from joulelab.hardware.board_facts import DISTURBED_SHARE
from joulelab.hardware.processor import Figure
from joulelab.hardware.processors import HOSTS, PROCESSORS, host_file
from joulelab.tracing.program import MatrixShape, Operator, Program

H100 = PROCESSORS["h100_sxm"]


def operator(name, kind, shape=None, **more):
    fields = {"flop": 1e9, "read_b": 1e6, "weight_b": 0.0, "written_b": 1e6, **more}
    fields |= {"dtype": "bfloat16", "pipe": "tensor_bf16"}
    return Operator(name=name, kind=kind, shape=shape, **fields)


def convolution(channels, pixels=3136, groups=1, n=64, window=1, **more):
    shape = MatrixShape(
        batch=groups, m=64 * pixels, n=n, k=channels * window, window=window, pixels=pixels
    )
    flop = 2.0 * shape.batch * shape.m * shape.n * shape.k
    moved_b = 2.0 * shape.m * groups
    return operator(
        "convolution",
        "conv",
        shape,
        flop=flop,
        read_b=moved_b * channels,
        written_b=moved_b * n,
        **more,
    )


def batched(n):
    return operator("bmm", "gemm", MatrixShape(batch=96, m=64, n=n, k=64))


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (operator("clone", "copy"), "copying"),
        (operator("clone", "copy", contiguous=0.5), "rearrangement"),
        (operator("cat", "copy"), "concatenation"),
        (operator("cat", "copy", layout="strided"), "strided_concatenation"),
        (operator("new_zeros", "copy"), "filling"),
        (operator("native_layer_norm_backward", "norm"), "layer_norm_backward"),
        (operator("_fused_rms_norm", "norm"), "other_norm"),
        (batched(64), "batched_product"),
        (batched(49), "uneven_batched_product"),
        (operator("max_pool2d_with_indices", "reduction"), "pooling"),
        (convolution(64, window=9), "convolution"),
        (convolution(64), "pixel_convolution"),
        (convolution(3, window=49), "first_convolution"),
        (convolution(16, groups=4, n=16), "grouped_convolution"),
        (convolution(1, groups=64, n=1, window=9), "depthwise_narrow"),
        (convolution(1, groups=64, n=1, window=49), "depthwise_wide"),
        (convolution(56, groups=4, n=56), "wide_groups"),
        (convolution(48, groups=16, n=48, window=128), "plain_groups"),
        (convolution(48, groups=16, n=48, window=31), "wide_groups"),
        (convolution(64, groups=16, n=64, window=128), "wide_groups"),
        (convolution(64, layout="channels_last"), "channels_last_convolution"),
        (convolution(3, window=49, layout="channels_last"), "first_channels_last"),
        (
            convolution(4, groups=32, n=4, window=9, layout="channels_last"),
            "channels_last_thin_groups",
        ),
        (convolution(56, groups=4, n=56, layout="channels_last"), "wide_groups"),
        (operator("cat", "copy", layout="channels_last"), "channels_last_concatenation"),
        (operator("mean", "reduction", layout="channels_last"), "channels_last_reduction"),
        (operator("native_batch_norm", "norm", layout="channels_last"), "channels_last_batch_norm"),
        (
            convolution(1, groups=64, n=1, window=9, layout="channels_last"),
            "channels_last_depthwise",
        ),
        (convolution(4, groups=32, n=4, window=9), "thin_groups"),
        (operator("upsample_bilinear2d", "elementwise"), "resizing"),
        (operator("gelu", "elementwise"), "pointwise"),
        (operator("add", "elementwise", layout="strided"), "strided_pointwise"),
        (operator("embedding", "gather"), "embedding"),
        (operator("index", "gather"), "indexing"),
        (operator("_flash_attention", "attention", layout="masked"), "masked_attention"),
        (operator("norm", "norm"), "norm"),
    ],
)
def test_operators_have_the_class_of_their_kernel(one, found):
    assert kernel_class(one) == found


def test_a_batch_norm_in_training_is_another_kernel():
    norm = operator("native_batch_norm", "norm", layout="channels_last")

    assert kernel_class(norm, training=True) == "batch_norm_training"


def as_written(made, *operators):
    """Return ``made`` with the values that ``operators`` write themselves, one by one."""
    (phase,) = made.phases
    program = replace(phase.program, operators=operators)
    return replace(made, phases=(replace(phase, program=program),))


def device_s(one, processor=H100):
    made = model(one, precision="bf16")
    if one.outputs_b:
        made = as_written(made, one)
    (phase,) = plan(made, "graph", "gpu")
    found = run(phase, conditions(processor, "graph", (OperatingPoint(),), 1))
    return float(found.settled.device_s[0, 0])


def test_single_pixels_need_another_layout_where_images_are_no_whole_units():
    even, uneven = (device_s(convolution(256, pixels=pixels)) / pixels for pixels in (784, 729))

    assert 1.5 < uneven / even < 4.0


def test_images_of_three_channels_are_multiplied_on_plain_units():
    first = convolution(3, pixels=112 * 112, window=49)

    rate = first.flop / device_s(first)

    assert 10e12 < rate < 35e12  # 24 TFLOP/s of a ResNet on an H100, of 989 of its matrix units


def test_wide_groups_run_one_after_the_other():
    few, many = (device_s(convolution(56, pixels=16, groups=groups, n=56)) for groups in (4, 36))
    narrow = device_s(convolution(32, pixels=16, groups=32, n=32))

    assert many > 5 * few
    assert narrow < 0.2 * many


def launches_of(one):
    found = plan(model(one), "eager", "gpu")[0]
    return num_kernels(found.table, H100)[0]


def test_each_of_the_wide_groups_is_launched_with_what_brings_it_into_the_layout():
    assert launches_of(convolution(56, groups=36, n=56)) == 4 * 36  # as of RegNetY-8GF on an H200
    assert launches_of(convolution(32, groups=32, n=32)) == 1


def test_plain_units_convolve_one_group_after_the_other():
    """The positions of HuBERT take 11 ms on an H200, however short the sound."""
    shape = {"groups": 16, "n": 48, "window": 128}
    one, sixteen = (convolution(48, pixels=pixels, **shape) for pixels in (8, 125))

    assert device_s(one, PROCESSORS["h200_sxm"]) == pytest.approx(11e-3, rel=0.1)
    assert device_s(sixteen, PROCESSORS["h200_sxm"]) == pytest.approx(12e-3, rel=0.15)
    assert launches_of(one) == 16


def products(name, side, *, batch=1, k=None):
    shape = MatrixShape(batch=batch, m=side, n=side, k=side if k is None else k)
    return operator(name, "gemm", shape, flop=2.0 * batch * side**2 * shape.k)


@pytest.mark.parametrize("device", ["h100_sxm", "h200_sxm"])
def test_large_products_of_a_batch_run_as_single_ones_do(device):
    """Rates of attention's heads stood for all: two products of 8192 took 8 times as long as one.

    So did linear layers that are written as ``einsum``, which multiplies a batch of one.
    """
    one, same, two = (
        device_s(product, PROCESSORS[device])
        for product in (
            products("mm", 8192),
            products("bmm", 8192),
            products("bmm", 8192, batch=2),
        )
    )

    assert same == pytest.approx(one, rel=1e-3)
    assert two == pytest.approx(2 * one, rel=0.03)


def test_products_of_a_batch_gain_with_their_least_side():
    rates = [
        one.flop / device_s(one)
        for one in (products("bmm", 4096, batch=8, k=k) for k in (64, 96, 128, 256, 512, 4096))
    ]

    assert rates == sorted(rates)
    assert rates[2] < 2.2 * rates[0]


def normalisation(name, elements, statistics, **more):
    """Normalise ``elements`` of two bytes, with so many means and deviations."""
    sizes_b = (2.0 * elements, 2.0 * statistics, 2.0 * statistics)
    return operator(
        name,
        "norm",
        flop=4.0 * elements,
        read_b=2.0 * elements,
        written_b=sum(sizes_b),
        outputs=(1, 2, 3),
        outputs_b=sizes_b,
        **more,
    )


def test_rows_over_which_a_layer_is_normalised_take_a_time_of_their_own():
    """An H200 takes 594 us for 524,288 rows of 32 and 57.2 us for 25,216 rows of 768."""
    times_s = [
        device_s(normalisation("native_layer_norm", rows * width, rows), PROCESSORS["h200_sxm"])
        for rows, width in ((524_288, 32), (25_216, 768))
    ]

    assert times_s == pytest.approx([594e-6, 57.2e-6], rel=0.2)


def test_few_channels_leave_most_of_a_device_idle_when_batches_are_normalised_in_training():
    """As many elements of each channel take the same time: 1.33 and 1.60 ms on an H200."""
    gradient = operator("native_batch_norm_backward", "norm", stage="backward")
    pixels = 128 * 112 * 112
    times_s = []
    for channels in (16, 96):
        forward = normalisation("native_batch_norm", channels * pixels, channels)
        made = as_written(model(forward, gradient, precision="bf16"), forward, gradient)
        (phase,) = plan(made, "graph", "gpu")
        where = conditions(PROCESSORS["h200_sxm"], "graph", (OperatingPoint(),), 1)
        times_s.append(float(run(phase, where).settled.device_s[0, 0]))

    assert times_s == pytest.approx([1.33e-3, 1.60e-3], rel=0.25)


def test_a_group_that_one_block_of_threads_sums_up_waits_for_each_element():
    """0.95 ms for 512 x 512 pixels of 128 channels on an H100 (decoder of Stable Diffusion)."""
    moved_b = 2.0 * 128 * 512 * 512
    norm = operator(
        "native_group_norm", "norm", flop=1e8, read_b=moved_b, written_b=moved_b, steps=2048.0
    )

    assert device_s(norm, H100) == pytest.approx(0.95e-3, rel=0.15)
    assert device_s(replace(norm, steps=0.0), H100) < 0.3e-3


def test_a_bicubic_resizing_waits_for_each_image_and_channel():
    """3.98 ms for 11 x 192 planes of 32 x 54 pixels on an H200, however few bytes they are."""
    planes = 11 * 192
    moved_b = 2.0 * planes * 32 * 54
    resizing = operator(
        "upsample_bicubic2d", "elementwise", flop=1e8, read_b=moved_b, steps=16.0 * planes
    )

    assert device_s(resizing, PROCESSORS["h200_sxm"]) == pytest.approx(3.98e-3, rel=0.2)


def test_groups_that_alternate_share_the_clock_of_their_mean_power():
    hot = operator("mm", "gemm", MatrixShape(batch=1, m=8192, n=8192, k=8192), flop=2 * 8192.0**3)
    cool = operator("add", "elementwise", flop=1e6, read_b=5e9, written_b=5e9)

    alone = estimate(model(hot, precision="bf16"), H100, mode="graph").phases[0].groups[0]
    mixed = estimate(model(hot, cool, precision="bf16"), H100, mode="graph")

    together = mixed.phases[0].groups[0]
    assert alone.clock_mhz < together.clock_mhz <= H100.default_clock_mhz
    assert mixed.phases[0].power_w <= mixed.cap_w
    assert together.power_w > mixed.phases[0].power_w


def test_modules_that_are_entered_take_the_host_time():
    flat = operator("add", "elementwise", module="a")
    deep = [operator("add", "elementwise", module=f"a.b{i}.c") for i in range(8)]

    (one,) = plan(model(*[flat] * 8, precision="bf16"), "eager", "gpu")
    (other,) = plan(model(*deep, precision="bf16"), "eager", "gpu")

    np.testing.assert_array_equal(one.entered, [1, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(other.entered, [3, 2, 2, 2, 2, 2, 2, 2])


class Net(nn.Module):
    """Convolutions with biases, which a GPU adds by kernels of their own."""

    unit = "image"

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(8, 8, 1) for _ in range(3)))

    def forward(self, x):
        return self.layers(x)

    @staticmethod
    def example_inputs(batch):
        return {"x": torch.empty(batch, 8, 16, 16)}


def test_an_answer_that_the_host_sets_gives_the_range_over_hosts():
    network = f"{__file__}:Net"
    unknown = estimate_by_name(network, device="h100")
    fast, slow = (estimate_by_name(network, device="h100", host=h) for h in ("fast", "slow"))

    busy_s = sum(group.device_s for group in unknown.phases[0].groups)
    assert unknown.launch_share == pytest.approx(1 - busy_s / unknown.latency_s)
    assert unknown.launch_share > 0.8
    low_s, high_s = unknown.host_range.latency_s
    assert low_s < fast.latency_s < slow.latency_s < high_s
    assert fast.latency_s < unknown.latency_s < slow.latency_s
    assert fast.host_range is slow.host_range is None
    assert unknown.confidence.on_unknown_host
    assert not fast.confidence.on_unknown_host
    assert fast.confidence.time_error != unknown.confidence.time_error
    assert len(fast.phases[0].groups) == 6


def test_an_answer_behind_a_measured_host_says_what_others_on_it_would_make_of_it(tmp_path):
    """It was of cores that nobody slows, and said nowhere that others take up to half as much more.

    Of 230 programs on shared hosts that were measured so, estimates were 11 % low on average.
    """
    path, network = tmp_path / "mine.toml", f"{__file__}:Net"
    fast = HOSTS["fast"]
    share = Figure(value=0.4, status="S", source="measured")
    path.write_text(host_file(replace(fast, figures={**fast.figures, DISTURBED_SHARE: share})))

    found = estimate_by_name(network, device="h100", host=str(path))
    slow = estimate_by_name(network, device="h100", host="slow")

    low_s, high_s = found.host_range.latency_s
    assert low_s == pytest.approx(found.latency_s)
    assert high_s == pytest.approx(slow.latency_s, rel=1e-3)
    assert found.host_range.disturbed == 0.4
    assert "While others do, as for 40% of the time when the host was measured" in host_words(found)


def test_an_answer_that_the_device_sets_has_no_range():
    made = estimate_by_name(f"{__file__}:Net", device="h100", batch=100_000)

    assert made.launch_share < 0.1
    assert made.host_range is None


def core_s_mhz(device, head):
    """Return the time per operation of attention with heads of a size, at 1 MHz.

    They are padded to the sizes that FlashAttention-2 has kernels for.
    """
    shape = MatrixShape(batch=64, m=4096, n=4096, k=head)
    flop = 4.0 * 64 * 4096**2 * head
    size_b = 2.0 * 64 * 4096 * head
    operator = Operator(
        name="_scaled_dot_product_flash_attention",
        kind="attention",
        dtype="float16",
        pipe="tensor_fp16",
        flop=flop,
        read_b=3 * size_b,
        weight_b=0.0,
        written_b=size_b,
        shape=shape,
    )
    program = Program(operators=(operator,), live_b=(0.0,), parameter_b=0.0, input_b=0.0)
    return group_costs(tabulate(program, ((0,),)), PROCESSORS[device]).core_s_mhz[0] / flop


@pytest.mark.parametrize("device", ["a100_sxm", "rtx_3090", "l4", "rtx_4090", "rtx_6000_ada"])
@pytest.mark.parametrize(("head", "padded"), [(40, 64), (80, 96), (160, 192)])
def test_heads_between_sizes_take_as_long_as_padded_ones(device, head, padded):
    slower = core_s_mhz(device, head) / core_s_mhz(device, padded)

    assert slower == pytest.approx(padded / head, rel=1e-6)


def test_heads_of_a_size_of_a_kernel_or_beyond_all_are_not_padded():
    assert core_s_mhz("a100_sxm", 64) == pytest.approx(core_s_mhz("a100_sxm", 128), rel=1e-6)
    assert core_s_mhz("a100_sxm", 512) == pytest.approx(core_s_mhz("a100_sxm", 128), rel=1e-6)


def test_a_hopper_pads_no_heads():
    assert core_s_mhz("h100_sxm", 40) == pytest.approx(core_s_mhz("h100_sxm", 64), rel=1e-6)


def busy_w(one, device="h200_sxm"):
    """Return what the units draw meanwhile, beside what bytes and operations do."""
    made, processor = as_written(model(one, precision="bf16"), one), PROCESSORS[device]
    (phase,) = plan(made, "graph", processor.family)
    found = run(phase, conditions(processor, "graph", (OperatingPoint(),), 1))
    costs, settled = found.costs, found.settled
    units_j = settled.compute_j + settled.memory_j - costs.flop_j - costs.memory_j
    units_j -= costs.cache_j * (processor.voltage.at(settled.clock_mhz) ** 2)
    return float((units_j / settled.device_s)[0, 0])


@pytest.mark.parametrize(
    ("one", "share"),
    [
        (operator("cat", "copy"), 0.51),
        (operator("cat", "copy", layout="strided"), 0.72),
        (operator("upsample_bilinear2d", "elementwise"), 0.66),
    ],
)
def test_units_that_wait_for_memory_draw_less(one, share):
    plain = operator("gelu", "elementwise")

    waiting, busy = (
        busy_w(replace(each, pipe="fp32", flop=0.0, read_b=1e10, written_b=1e10))
        for each in (one, plain)
    )

    assert waiting / busy == pytest.approx(share, abs=0.01)


def test_on_other_processors_all_kernels_draw_alike():
    costs = group_costs(
        plan(model(operator("cat", "copy"), precision="bf16"), "eager", "cpu")[0].table,
        PROCESSORS["epyc_9654"],
    )

    assert (costs.activity == 1.0).all()
