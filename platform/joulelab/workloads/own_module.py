"""A user's ``torch.nn.Module`` with the arguments of a call, as a workload."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch._guards import active_fake_mode
from torch.utils._pytree import tree_map
from typing_extensions import override

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.tracing.trace import fake_network
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

_PRECISIONS: Mapping[torch.dtype, NetworkPrecision] = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


class OwnModule(NetworkWorkload[NetworkSettings]):
    """Calls a module that exists already; a call is its unit of work."""

    settings_type: ClassVar = NetworkSettings
    unit: ClassVar[str] = "call"
    is_defined_by_settings: ClassVar[bool] = False
    target: ClassVar[tuple[torch.nn.Module, tuple[Any, ...], Mapping[str, Any]]]
    own: ClassVar[NetworkSettings]

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        if settings != self.own:
            raise ConfigError(
                "A module runs as it is on the inputs that it is given, so that batch, precision "
                f"and weights cannot be asked for, got {settings}; give another module or other "
                "inputs."
            )

    @property
    @override
    def title(self) -> str:
        return f"{type(self.target[0]).__name__} in {self.settings.precision}"

    @override
    def network(self, device: Any) -> Any:
        module = self.target[0]
        return module if active_fake_mode() is None else fake_network(lambda: deepcopy(module))

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        _, args, kwargs = self.target
        if active_fake_mode() is not None:
            args, kwargs = tree_map(_without_memory, (args, dict(kwargs)))
        return {"forward": lambda: network(*args, **kwargs)}

    @override
    def work(self, phase: str) -> float:
        return 1.0

    @override
    def executions(self, phase: str) -> int:
        return 1


def module_workload(
    module: object, inputs: Sequence[Any] | Mapping[str, Any]
) -> NetworkWorkload[NetworkSettings]:
    """Return a workload that calls ``module``; ConfigError if it is none, or of a strange type."""
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(
            f"inputs are for a torch.nn.Module, got a {type(module).__name__}; leave them out."
        )
    dtype = next((each.dtype for each in module.parameters()), torch.float32)
    if dtype not in _PRECISIONS:
        raise ConfigError(f"The module's parameters must be of 16 or 32 bits, got {dtype}.")
    is_named = isinstance(inputs, Mapping)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    target = (module, () if is_named else tuple(inputs), inputs if is_named else {})
    name = type(module).__name__
    own = NetworkSettings(precision=_PRECISIONS[dtype])
    named = {"target": target, "own": own, "__module__": type(module).__module__}
    made: NetworkWorkload[NetworkSettings] = type(name, (OwnModule,), named)(own)
    return made


def _without_memory(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
