"""Training steps, against closed forms."""

import pytest
import torch
from torch import nn

from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_network, fake_tensors, trace_training


def two_layers():
    return nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False))


def traced(**options):
    with fake_tensors():
        network = fake_network(two_layers).train()
        x = torch.empty(3, 8)
        return trace_training(lambda: network(x), network=network, inputs=x, **options)


def test_a_step_runs_forward_then_backward_then_the_optimizer():
    stages = [operator.stage for operator in traced().operators]

    assert list(dict.fromkeys(stages)) == ["forward", "backward", "optimizer"]
    assert stages == sorted(stages, key=["forward", "backward", "optimizer"].index)


def test_every_product_has_a_gradient_product_for_each_operand_that_needs_one():
    products = [each for each in traced().operators if each.kind == "gemm"]

    first, second = 2 * 3 * 8 * 16, 2 * 3 * 16 * 4
    assert [each.flop for each in products if each.stage == "forward"] == [first, second]
    assert sorted(each.flop for each in products if each.stage == "backward") == sorted(
        [second, second, first]  # the input of the network needs no gradient
    )


def test_a_convolution_s_gradients_cost_as_much_as_torch_says():
    from torch.utils.flop_counter import FlopCounterMode

    with fake_tensors():
        network = fake_network(
            lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2))
        )
        x = torch.empty(2, 3, 12, 12)
        program = trace_training(lambda: network(x), network=network, inputs=x)
        with torch.enable_grad(), FlopCounterMode(display=False) as counter:
            network(x).sum().backward()

    counted = sum(each.flop for each in program.operators if each.kind == "conv")
    assert counted == counter.get_total_flops()


ADAMW = {
    "parameter *=": 2,
    "first moment, towards gradient": 3,
    "second moment *=": 2,
    "second moment += gradient squared": 3,
    "root of second moment": 2,
    "root /=": 2,
    "root +=": 2,
    "parameter += first moment / root": 4,
}


def test_the_optimizer_passes_over_all_parameters_operator_by_operator():
    num_parameters, num_steps_b = 8 * 16 + 16 * 4, 2 * 4

    program = traced()

    steps = [each for each in program.operators if each.stage == "optimizer"]
    steps = [each for each in steps if each.written_b > num_steps_b]  # not the count of steps
    assert [each.moved_b for each in steps] == [
        num_passes * 4 * num_parameters for num_passes in ADAMW.values()
    ]
    assert {each.flop for each in steps} == {num_parameters}


def test_the_loss_is_the_sum_of_all_outputs_unless_the_network_tells_one():
    class Output(dict):
        __getattr__ = dict.get

    with fake_tensors():
        network = fake_network(two_layers)
        x = torch.empty(3, 8)

        def products(forward):
            program = trace_training(forward, network=network, inputs=x)
            backward = [each for each in program.operators if each.stage == "backward"]
            return len([each for each in backward if each.kind == "gemm"])

        both = products(lambda: (network[0](x), {"b": network(x)}))
        loss = products(lambda: Output(loss=network[0](x).sum(), logits=network(x)))

    assert (both, loss) == (4, 1)


def test_a_frozen_network_cannot_be_trained():
    with fake_tensors():
        network = fake_network(two_layers).requires_grad_(requires_grad=False)

        with pytest.raises(ConfigError, match="requires gradients; it has none"):
            trace_training(lambda: network(torch.empty(3, 8)), network=network)


def test_training_leaves_no_gradients_behind():
    with fake_tensors():
        network = fake_network(two_layers)
        trace_training(lambda: network(torch.empty(3, 8)), network=network)

        assert all(parameter.grad is None for parameter in network.parameters())


def test_an_output_without_a_graph_is_refused():
    with fake_tensors():
        network = fake_network(two_layers)

        with pytest.raises(ConfigError, match="depends on a trained parameter"):
            trace_training(lambda: network(torch.empty(3, 8)).detach(), network=network)
