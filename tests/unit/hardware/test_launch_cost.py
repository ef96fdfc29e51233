"""What a program's calls take on a host."""

import pytest

from joulelab.hardware.launch_cost import LAUNCHES, eager_launch_s
from joulelab.hardware.processors import FASTEST, HOSTS, PROCESSORS, on_host

CALLS_S = HOSTS[FASTEST].operator_s
TIMING = on_host(PROCESSORS["h200_sxm"], HOSTS[FASTEST]).timing


def test_a_plain_kernel_takes_an_addition_and_what_programs_add():
    assert TIMING.launch_s("pointwise_float32", "pointwise", "elementwise") == pytest.approx(
        LAUNCHES * CALLS_S["add"]
    )


@pytest.mark.parametrize(
    ("dearer", "cheaper"),
    [
        (("convolution", "conv"), ("pixel_convolution", "conv")),
        (("pixel_convolution", "conv"), ("depthwise_wide", "conv")),
        (
            ("batch_norm_bfloat16", "batch_norm", "norm"),
            ("batch_norm_float32", "batch_norm", "norm"),
        ),
        (("group_norm", "norm"), ("layer_norm", "norm")),
        (("indexing", "gather"), ("pointwise", "elementwise")),
    ],
)
def test_calls_cost_what_they_do_in_a_loop(dearer, cheaper):
    assert TIMING.launch_s(*dearer) > 1.2 * TIMING.launch_s(*cheaper)


def test_launches_follow_their_host_call_by_call():
    slowed = eager_launch_s({**CALLS_S, "conv2d": 2 * CALLS_S["conv2d"]})
    before = eager_launch_s(CALLS_S)

    changed = {name for name in before if slowed[name] != before[name]}

    assert changed == {"conv", "pixel_convolution", "depthwise_narrow", "depthwise_wide"}
    assert slowed["conv"] == pytest.approx(2 * before["conv"])
