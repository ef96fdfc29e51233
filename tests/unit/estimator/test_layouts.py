"""How operands lie, where PyTorch chooses a kernel by that."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.tracing.trace import fake_tensors, trace_program


def layouts(step):
    """Return the layout of each operator of a step on two square matrices without values."""
    with fake_tensors():
        one, two = torch.empty(64, 64), torch.empty(64, 64)
        return [each.layout for each in trace_program(lambda: step(one, two)).operators]


@pytest.mark.parametrize(
    ("step", "layout"),
    [
        (lambda a, b: a + b, "plain"),
        (lambda a, _: a * 2.0, "plain"),
        (lambda a, b: a.t() + b.t(), "plain"),
        (lambda a, b: a + b.bfloat16(), "plain"),
        (lambda a, b: a + b[0], "strided"),
        (lambda a, b: a + b.t(), "strided"),
        (lambda a, _: a[:, :32] * 2.0, "strided"),
        (lambda a, b: a * b.new_zeros(()), "plain"),
        (lambda a, b: torch.cat([a, b]), "plain"),
        (lambda a, b: torch.cat([a, b[:, :32]], dim=1), "strided"),
    ],
)
def test_elementwise_kernels_are_strided_where_operands_lie_apart(step, layout):
    assert layouts(step)[-1] == layout


def test_images_may_come_with_all_channels_of_a_pixel_side_by_side():
    with fake_tensors():
        image, weight = torch.empty(2, 8, 16, 16), torch.empty(8, 8, 3, 3)
        last = image.to(memory_format=torch.channels_last)
        plain = trace_program(lambda: functional.conv2d(image, weight)).operators[0]
        other = trace_program(lambda: functional.conv2d(last, weight)).operators[0]

    assert (plain.layout, other.layout) == ("plain", "channels_last")


def traced(step):
    with fake_tensors():
        image = torch.empty(2, 8, 16, 16)
        one, two = image, image.to(memory_format=torch.channels_last)
        return [
            [(each.name, each.layout) for each in trace_program(partial(step, images)).operators]
            for images in (one, two)
        ]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (lambda image: torch.cat([image, image], dim=1), "cat"),
        (lambda image: image.mean((2, 3)), "mean"),
        (lambda image: nn.BatchNorm2d(8).eval()(image), "native_batch_norm"),
    ],
)
def test_kernels_over_images_know_the_order_of_channels(step, name):
    plain, last = traced(step)
    assert (plain[-1], last[-1]) == ((name, "plain"), (name, "channels_last"))


def test_a_slice_of_channels_is_copied_before_it_is_convolved():
    def convolved(channels):
        windows = torch.empty(8, channels, 3, 3)
        return traced(lambda image: functional.conv2d(image[:, :channels], windows))

    assert convolved(4) == [
        [("clone", "plain"), ("convolution", "plain")],
        [("clone", "plain"), ("convolution", "channels_last")],
    ]
    assert convolved(8) == [[("convolution", "plain")], [("convolution", "channels_last")]]


def test_attention_is_masked_where_scores_are_added():
    with fake_tensors():
        heads = torch.empty(2, 4, 32, 16, dtype=torch.bfloat16)
        mask = torch.empty(32, 32, dtype=torch.bfloat16)
        attend = functional.scaled_dot_product_attention
        plain = trace_program(lambda: attend(heads, heads, heads)).operators[0]
        masked = trace_program(lambda: attend(heads, heads, heads, attn_mask=mask)).operators[0]

    assert (plain.layout, masked.layout) == ("plain", "masked")
