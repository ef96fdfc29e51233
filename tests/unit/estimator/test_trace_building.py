"""Networks of fake tensors."""

import resource

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 8)
        self.head = nn.Linear(8, 100, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


class ReadsValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, int(torch.ones(6).sum().item()))

    def forward(self, x):
        return self.linear(x)


class HoldsTensors(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [torch.ones(4), (torch.ones(4),)]
        self.shift = torch.ones(4)

    def forward(self, x):
        return x * self.scales[0] * self.scales[1][0] + self.shift


def test_a_network_of_a_trillion_parameters_is_built_without_memory():
    with fake_tensors():  # imports what it needs
        pass
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with fake_tensors():
        network = fake_network(lambda: nn.Linear(1_000_000, 1_000_000), torch.bfloat16)
        x = torch.empty(1, 1_000_000, dtype=torch.bfloat16)
        program = trace_program(lambda: network(x), network=network)

    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert program.parameter_b == 2 * (1e12 + 1e6)
    assert grown_mib < 64


def test_floating_point_tensors_take_the_given_type_and_others_keep_theirs():
    with fake_tensors():
        network = fake_network(lambda: nn.BatchNorm2d(4), torch.float16)

    assert network.weight.dtype == network.running_mean.dtype == torch.float16
    assert network.num_batches_tracked.dtype == torch.int64


def test_every_tensor_becomes_fake_and_parameters_stay_parameters():
    with fake_tensors():
        network = fake_network(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
        tensors = [*network.parameters(), *network.buffers()]

    assert len(tensors) == 7
    assert all(isinstance(tensor, FakeTensor) for tensor in tensors)
    assert all(isinstance(each, nn.Parameter) for each in network.parameters())
    assert all(each.requires_grad for each in network.parameters())


def test_tied_parameters_stay_tied():
    with fake_tensors():
        network = fake_network(Tied)
        tokens = torch.zeros(5, dtype=torch.long)
        program = trace_program(lambda: network(tokens), network=network)

    assert network.head.weight is network.embedding.weight
    assert program.parameter_b == 100 * 8 * 4


def test_a_constructor_that_reads_values_is_run_for_real():
    with fake_tensors():
        network = fake_network(ReadsValues)
        y = network(torch.empty(2, 4))

    assert y.shape == (2, 6)
    assert isinstance(network.linear.weight, FakeTensor)


def test_a_constructor_that_is_run_for_real_draws_no_random_weights():
    """Networks whose constructor reads values took seconds for weights that nobody asks for."""
    before = torch.get_rng_state()

    with fake_tensors():
        fake_network(ReadsValues)

    assert torch.equal(torch.get_rng_state(), before)


def test_tensors_that_are_no_buffers_become_fake_too():
    with fake_tensors():
        network = fake_network(HoldsTensors)

        assert network(torch.empty(4)).shape == (4,)


def test_an_error_of_the_constructor_is_raised_as_it_is():
    def build():
        raise TypeError("no such option")

    with fake_tensors(), pytest.raises(TypeError, match="no such option"):
        fake_network(build)


def test_a_fake_network_needs_fake_tensors():
    with pytest.raises(ConfigError, match="fake_tensors"):
        fake_network(lambda: nn.Linear(2, 3))
