"""Networks from a user's own file, which is executed.

Imports torch, so it is imported only by functions that find or trace a model.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Source
from joulelab.estimator.models.network import Inputs, NetworkModel, call_by_name, call_in_order
from joulelab.registry import unknown_name
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.workloads.programs import executed, guarded

_MAKERS = ("example_inputs", "make_inputs")
_HOW = (
    "Name a function of the file that takes the batch size and returns a tensor, a tuple of "
    "tensors or a dict of them: path.py:Class:function; or define it as `example_inputs(batch)` "
    "of the class or of the file."
)


class FileSource(Source):
    """``PATH.py:CLASS`` or ``PATH.py:CLASS:FUNCTION``; finding one executes the file.

    The class is a ``torch.nn.Module`` that can be made without arguments; those that have plain
    defaults become knobs. An attribute ``unit`` names a sample, by default ``"sample"``.
    """

    @override
    def names(self) -> Sequence[str]:
        return ()

    @override
    def find(self, name: str) -> Model:
        path, class_name, function = _parts(name)
        ensure_torchvision()
        module = executed(path)
        network_type = _member(module, class_name, path)
        if not (isinstance(network_type, type) and issubclass(network_type, torch.nn.Module)):
            raise ConfigError(f"{class_name} of {path} must be a torch.nn.Module.")
        maker = _maker(module, network_type, function, path)
        return NetworkModel(
            title=f"{path.name}:{class_name}",
            unit=str(getattr(network_type, "unit", "sample")),
            knobs=_knobs(network_type),
            build=lambda knobs: guarded(path, lambda: network_type(**knobs)),
            make_inputs=lambda batch, _: _named(guarded(path, lambda: maker(batch)), name),
            call=lambda network, inputs: guarded(path, lambda: _call(network, inputs)),
        )


def _parts(name: str) -> tuple[Path, str, str]:
    stem, _, rest = name.partition(".py:")
    path = Path(f"{stem}.py").expanduser()
    if not path.is_file():
        raise ConfigError(f"There is no file {path}.")
    class_name, _, function = rest.partition(":")
    return path, class_name, function


def _member(module: ModuleType, name: str, path: Path) -> Any:
    if not name or not hasattr(module, name):
        known = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise unknown_name(f"class of {path}", name, known)
    return getattr(module, name)


def _maker(
    module: ModuleType, network_type: type[torch.nn.Module], function: str, path: Path
) -> Callable[[int], Any]:
    places = (module, network_type) if function else (network_type, module)
    for place in places:
        for name in (function,) if function else _MAKERS:
            maker = getattr(place, name, None)
            if callable(maker):
                return maker  # type: ignore[no-any-return]
    missing = f"no {function!r}" if function else "no example_inputs"
    raise ConfigError(f"{path} has {missing}. {_HOW}")


def _named(made: object, name: str) -> Inputs:
    """Return inputs by name: those of a dict by its keys, others by their position."""
    if isinstance(made, torch.Tensor):
        made = (made,)
    if isinstance(made, Mapping) and all(isinstance(each, torch.Tensor) for each in made.values()):
        return dict(made)
    if isinstance(made, tuple | list) and all(isinstance(each, torch.Tensor) for each in made):
        return {str(index): tensor for index, tensor in enumerate(made)}
    raise ConfigError(f"The inputs of {name} are a {type(made).__name__}. {_HOW}")


def _call(network: Any, inputs: Inputs) -> object:
    by_position = all(name.isdecimal() for name in inputs)
    return call_in_order(network, inputs) if by_position else call_by_name(network, inputs)


def _knobs(network_type: type[torch.nn.Module]) -> Knobs:
    """Return the constructor's arguments that have a plain default."""
    knobs: dict[str, KnobValue] = {}
    for name, parameter in inspect.signature(network_type).parameters.items():
        default = parameter.default
        if default is None or isinstance(default, str | int | float | bool):
            knobs[name] = default
    return knobs
