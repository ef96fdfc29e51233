"""Trace a training step: forward, backward, and the optimizer.

Imports torch, so it is imported only by functions that trace a model.
"""

from collections.abc import Callable, Mapping

import torch
from torch.utils._pytree import tree_leaves

from joulelab.errors import ConfigError
from joulelab.estimator.program import Program
from joulelab.estimator.tracing.trace import trace_program


def trace_training_step(
    network: torch.nn.Module,
    forward: Callable[[], object],
    inputs: Mapping[str, torch.Tensor],
) -> Program:
    """Trace one step of AdamW on the mean of all outputs of ``forward``.

    The loss stands for any: what it costs is small beside the network. One step runs before the
    traced one, so that the optimizer's state exists.
    """
    optimizer = torch.optim.AdamW(network.parameters(), foreach=False)

    def step() -> None:
        _mean_of(forward()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    with torch.enable_grad():
        step()
    optimizer.zero_grad()
    return trace_program(step, network=network, inputs=inputs, optimizer=optimizer, gradients=True)


def _mean_of(outputs: object) -> torch.Tensor:
    values = getattr(outputs, "to_tuple", lambda: outputs)()
    leaves = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    means = [leaf.mean() for leaf in leaves if leaf.is_floating_point() and leaf.requires_grad]
    if not means:
        raise ConfigError("A training step needs an output that depends on the parameters.")
    return torch.stack([mean.float() for mean in means]).sum()
