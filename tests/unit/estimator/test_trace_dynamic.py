"""Programs whose course depends on values that fake tensors do not have."""

import pytest
import torch
from torch import nn

from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_network, fake_tensors, trace_program


class Picky(nn.Module):
    def __init__(self, pick):
        super().__init__()
        self.head = nn.Identity()
        self.pick = pick

    def forward(self, x):
        return self.pick(x)


@pytest.mark.parametrize(
    ("pick", "operator"),
    [
        (lambda x: x.nonzero(), "aten.nonzero"),
        (lambda x: x[x > 0], "aten.index"),
        (lambda x: x.sum().item(), "aten._local_scalar_dense"),
        (lambda x: x if x.sum() > 0 else -x, "aten._local_scalar_dense"),
        (lambda x: torch.unique(x), "aten._unique2"),
    ],
)
def test_a_shape_that_depends_on_values_is_refused_by_operator_and_module(pick, operator):
    with fake_tensors():
        network = fake_network(lambda: nn.Sequential(nn.ReLU(), Picky(pick)))

        with pytest.raises(ConfigError, match="depends on the values") as refused:
            trace_program(lambda: network(torch.empty(8)), network=network)

    assert operator in str(refused.value)
    assert "module '1'" in str(refused.value)


def test_an_operator_without_a_fake_implementation_is_refused_with_what_to_do():
    with torch.library._scoped_library("joulelab_test", "FRAGMENT") as library:
        library.define("opaque(Tensor x) -> Tensor")
        library.impl("opaque", lambda x: x.clone(), "CPU")
        with fake_tensors(), pytest.raises(ConfigError, match="register_fake"):
            trace_program(lambda: torch.ops.joulelab_test.opaque(torch.empty(8)))


def test_real_tensors_have_the_values_that_a_shape_depends_on():
    x = torch.tensor([1.0, 0.0, 2.0])

    program = trace_program(lambda: x[x > 0] * 2)

    assert program.operators[-1].flop == 2.0


def test_hooks_are_gone_after_an_error():
    from torch.nn.modules import module

    before = len(module._global_forward_hooks), len(module._global_forward_pre_hooks)
    functions = nn.functional.dropout, nn.functional.scaled_dot_product_attention

    with fake_tensors(), pytest.raises(ConfigError):
        trace_program(lambda: torch.empty(8).nonzero())

    assert (len(module._global_forward_hooks), len(module._global_forward_pre_hooks)) == before
    assert functions == (nn.functional.dropout, nn.functional.scaled_dot_product_attention)


def test_sparse_tensors_are_refused():
    x = torch.eye(4).to_sparse()

    with pytest.raises(ConfigError, match="to_dense"):
        trace_program(lambda: x * 2)
