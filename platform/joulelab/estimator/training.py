"""Trace a training step: forward, backward, and the step of an optimizer.

Optimizers run as PyTorch runs them on a GPU by default: over lists of tensors ("foreach").
"""

from collections.abc import Callable
from typing import Literal

import torch

from joulelab.errors import ConfigError
from joulelab.estimator.program import Program
from joulelab.estimator.trace import trace_program
from joulelab.estimator.values import tensors_held

Optimizer = Literal["sgd", "adamw"]
"""Stochastic gradient descent with momentum 0.9; Adam with decoupled weight decay."""


def trace_training(
    forward: Callable[[], object],
    *,
    network: torch.nn.Module,
    inputs: object = (),
    optimizer: Optimizer = "adamw",
    tf32_matmul: bool = False,
    tf32_conv: bool = True,
    strict: bool = False,
) -> Program:
    """Trace one step of training in the steady state: the optimizer's state exists already.

    Args:
        forward: Calls the network, which must be in training mode. Gradients are those of the
            sum of the first floating-point tensor in what it returns that depends on a parameter.
        network: The network; those of its parameters that require gradients are trained.
        inputs: As for :func:`joulelab.estimator.trace.trace_program`.
        optimizer: The optimizer.
        tf32_matmul: As there.
        tf32_conv: As there.
        strict: As there.

    Raises:
        ConfigError: As there, and if nothing that ``forward`` returns depends on a parameter.
    """
    stepping = _optimizer(optimizer, network)
    _fill_state(stepping, network)

    def step() -> None:
        _loss(forward()).backward()  # type: ignore[no-untyped-call]
        stepping.step()

    try:
        return trace_program(
            step,
            network=network,
            inputs=inputs,
            optimizer=stepping,
            gradients=True,
            tf32_matmul=tf32_matmul,
            tf32_conv=tf32_conv,
            strict=strict,
        )
    finally:
        stepping.zero_grad()


def _optimizer(name: Optimizer, network: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [each for each in network.parameters() if each.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)
    return torch.optim.AdamW(parameters, foreach=True)


def _fill_state(optimizer: torch.optim.Optimizer, network: torch.nn.Module) -> None:
    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def _loss(output: object) -> torch.Tensor:
    for tensor in tensors_held(output):
        if tensor.requires_grad and tensor.is_floating_point():
            return tensor.sum()
    raise ConfigError(
        "forward must return a floating-point tensor that depends on a parameter which requires "
        "gradients; check that the network is not frozen and keeps its graph."
    )
