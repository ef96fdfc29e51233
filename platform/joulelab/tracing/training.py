"""Run and trace a training step: forward, backward, and the step of an optimizer.

Optimizers run as PyTorch runs them on a GPU by default: over lists of tensors ("foreach").
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import torch

from joulelab.errors import ConfigError
from joulelab.tracing.program import Program
from joulelab.tracing.trace import trace_program

Optimizer = Literal["sgd", "adamw"]
"""Stochastic gradient descent with momentum 0.9; Adam with decoupled weight decay."""


class TrainingStep:
    """A step of training that can be run and traced: forward, backward, the optimizer's step.

    Arguments are as for :func:`trace_training`; the optimizer's state is made by the first step.

    Raises:
        ConfigError: If no parameter requires gradients.
    """

    def __init__(
        self,
        forward: Callable[[], object],
        *,
        network: torch.nn.Module,
        optimizer: Optimizer = "adamw",
    ) -> None:
        self.optimizer = _optimizer(optimizer, network)
        self._forward = forward

    def __call__(self) -> None:
        """Train once; gradients must be enabled."""
        self.optimizer.zero_grad()  # frees those of the step before
        output = self._forward()  # kept to the end, as training loops do
        _loss(output).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


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

    ``forward`` calls the network, which must be in training mode; gradients are those of the
    ``loss`` in what it returns, or without one, of the sum of all that it returns. The parameters
    of ``network`` that require gradients are trained. The rest is as for
    :func:`joulelab.tracing.trace.trace_program`.

    Raises:
        ConfigError: As there; and if no parameter requires gradients, or nothing that
            ``forward`` returns depends on one.
    """
    step = TrainingStep(forward, network=network, optimizer=optimizer)
    _fill_state(step.optimizer, network)
    try:
        return trace_program(
            step,
            network=network,
            inputs=inputs,
            optimizer=step.optimizer,
            gradients=True,
            tf32_matmul=tf32_matmul,
            tf32_conv=tf32_conv,
            strict=strict,
        )
    finally:
        step.optimizer.zero_grad()


def _optimizer(name: Optimizer, network: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [each for each in network.parameters() if each.requires_grad]
    if not parameters:
        raise ConfigError("network must have a parameter that requires gradients; it has none.")
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
    loss = getattr(output, "loss", None)
    sums = [
        tensor.sum()
        for tensor in _tensors(output if loss is None else loss)
        if tensor.requires_grad and tensor.is_floating_point()
    ]
    if not sums:
        raise ConfigError("forward must return a tensor that depends on a trained parameter.")
    return sum(sums[1:], start=sums[0])


def _tensors(output: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a nest of containers; objects such as caches are no outputs."""
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from _tensors(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tensors(part)
