"""Fusion of whole networks, against their layers counted by hand."""

import pytest
import torch

from joulelab.estimator.pricing.breakdown import concurrency
from joulelab.tracing.fusion import fused, traffic
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program


def traced(name, *, size=224):
    ensure_torchvision()
    import torchvision

    settings = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    with fake_tensors():
        network = fake_network(lambda: getattr(torchvision.models, name)(**settings)).eval()
        image = torch.zeros(1, 3, size, size)
        return trace_program(lambda: network(image), network=network, inputs=image)


@pytest.mark.parametrize(
    ("name", "num_groups"),
    [
        ("resnet18", 20 + 1 + 1 + 1),  # convolutions, maximum, mean, linear layer
        ("resnet50", 53 + 1 + 1 + 1),
        ("mobilenet_v2", 52 + 1 + 1),  # convolutions, mean, linear layer
        ("vgg16", 13 + 5 + 1 + 3),  # convolutions, maxima, mean, linear layers
    ],
)
def test_a_classic_network_runs_as_its_layers_one_after_the_other(name, num_groups):
    program = traced(name)

    groups = fused(program)
    width = concurrency(program, groups, [1.0] * len(groups))

    assert len(groups) == num_groups
    assert (width.critical_path, width.max_width) == (num_groups, 1)


@pytest.mark.parametrize(
    ("name", "size", "num_groups", "max_width"),
    [
        ("inception_v3", 299, 94 + 14 + 1, 4),  # convolutions, pools and mean, linear layer
        ("googlenet", 224, 57 + 13 + 1 + 1, 4),  # and the input's rescaling
    ],
)
def test_branches_of_an_inception_network_run_side_by_side(name, size, num_groups, max_width):
    program = traced(name, size=size)

    groups = fused(program)
    width = concurrency(program, groups, [1.0] * len(groups))

    assert (len(groups), width.max_width) == (num_groups, max_width)
    assert 1.6 < width.mean_width < 2.1


def test_a_fused_network_moves_what_its_convolutions_read_and_write():
    """ResNet-18 by hand, in elements of each convolution's input and output."""
    program = traced("resnet18")

    moved = traffic(program, fused(program))

    stem = 3 * 224**2 + 64 * 112**2  # convolution
    stem += 64 * 112**2 + (1 + 2) * 64 * 56**2  # maximum, and where it is as 64-bit integers
    blocks = 4 * (64 + 64) * 56**2 + 2 * 64 * 56**2  # and two residual inputs
    for channels, side in ((128, 28), (256, 14), (512, 7)):
        inner = channels * side**2
        larger_input = channels // 2 * (2 * side) ** 2
        blocks += larger_input + inner + 2 * inner  # first block: two convolutions
        blocks += larger_input + inner + inner  # its shortcut, which adds the sum
        blocks += 2 * 2 * inner + inner  # second block with its residual input
    end = 512 * 7**2 + 512 + 512 + 1000
    assert sum(read_b + written_b for read_b, _, written_b, _ in moved) == 4 * (stem + blocks + end)
    assert [outside_b for *_, outside_b in moved if outside_b] == [4 * 3 * 224**2]  # the image
    assert sum(weight_b for _, weight_b, *_ in moved) == sum(
        operator.weight_b for operator in program.operators
    )


def test_convolutions_of_a_training_step_keep_batch_norm_apart():
    with fake_tensors():
        network = fake_network(
            lambda: torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
            )
        ).train()
        image = torch.zeros(4, 3, 32, 32)
        program = trace_program(
            lambda: network(image).sum().backward(), network=network, inputs=image, gradients=True
        )

    groups = fused(program)

    kinds = [{program.operators[index].kind for index in group} for group in groups]
    assert not any({"conv", "norm"} <= kinds_of_group for kinds_of_group in kinds)
    assert {"norm", "elementwise"} in kinds


def test_a_cache_written_in_place_reaches_memory():
    """A slice written into a cache leaves the rest of it, which attention then reads."""
    with fake_tensors():
        tokens, cache = torch.zeros(1, 64), torch.zeros(100, 64)
        weights = torch.nn.Linear(64, 64, bias=False)

        def step():
            cache[7:8].copy_(weights(tokens) + 1)
            return cache @ tokens.t()

        program = trace_program(step, network=weights, inputs=(tokens, cache))

    groups = fused(program)
    moved = traffic(program, groups)

    assert groups == ((0, 1, 2), (3,))
    assert moved[0][:3] == (4 * 64, 4 * 64 * 64, 4 * 64)
    assert moved[1][:3] == (4 * (100 * 64 + 64), 0.0, 4 * 100)
