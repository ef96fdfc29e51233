"""Heads of attention are padded to the sizes that FlashAttention-2 has kernels for."""

import pytest

from joulelab.estimator.pricing.roofline import group_costs
from joulelab.estimator.pricing.table import tabulate
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.program import MatrixShape, Operator, Program


def core_s_mhz(device, head):
    """Return the time per operation of attention with heads of a size, at 1 MHz."""
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
