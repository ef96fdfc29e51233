"""Build networks of any size without memory: fake parameters and buffers.

A network is constructed under ``torch.device("meta")``, where nothing is allocated or filled,
and its tensors are then replaced by fake ones on the CPU device, on which it can be traced::

    with fake_tensors():
        network = fake_network(build, torch.bfloat16)
        program = trace_program(lambda: network(x), network=network)
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.nn.parameter import is_lazy

from joulelab.errors import ConfigError

Network = TypeVar("Network", bound=torch.nn.Module)


def fake_network(build: Callable[[], Network], dtype: torch.dtype | None = None) -> Network:
    """Return the network that ``build`` makes, with fake tensors for all that it holds.

    If the constructor reads values, which meta tensors do not have, the network is built for
    real on the CPU, which needs memory for all its parameters for a moment.

    Args:
        build: Makes the network; called once, or twice if the constructor reads values.
        dtype: Type of floating-point parameters and buffers; ``None`` leaves them as built.

    Raises:
        ConfigError: If called outside of :func:`joulelab.estimator.tracing.trace.fake_tensors`.
    """
    with unset_fake_temporarily() as mode:
        if not isinstance(mode, FakeTensorMode):
            raise ConfigError("fake_network must be called in a `with fake_tensors():` block.")
        network = _built(build)
        if dtype is not None:
            network.to(dtype)
        _make_fake(network, mode)
    return network


def _built(build: Callable[[], Network]) -> Network:
    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):  # what meta tensors raise when they are read
        return build()


def _make_fake(network: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Replace every tensor that ``network`` holds, one that is held twice by one tensor."""
    fakes: dict[int, torch.Tensor] = {}

    def fake(value: Any) -> Any:
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(fake(element) for element in value)
        if not isinstance(value, torch.Tensor) or is_lazy(value):
            return value
        if id(value) not in fakes:
            fakes[id(value)] = _fake(value, mode)
        return fakes[id(value)]

    for module in network.modules():
        for held in (module._parameters, module._buffers, vars(module)):  # noqa: SLF001
            held.update({name: fake(value) for name, value in held.items()})


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    made = FakeTensor(mode, torch.empty_like(tensor, device="meta"), torch.device("cpu"))
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made
