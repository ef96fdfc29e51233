"""One operator call as PyTorch's dispatcher sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch

from joulelab.estimator.tracing.kinds import Kind, kind_of, launches_nothing


class _Argument(NamedTuple):
    name: str
    default: Any
    is_out: bool
    is_written: bool


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of one operator.

    Attributes:
        operator: The overload that was called.
        args: Positional arguments.
        kwargs: Keyword arguments.
        result: What it returned.
    """

    operator: torch._ops.OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: object

    @property
    def name(self) -> str:
        """The operator's name without namespace and overload, e.g. ``"mm"``."""
        return name_of(self.operator)

    @property
    def kind(self) -> Kind:
        """What its kernel computes."""
        return kind_of(self.name)

    @property
    def launches_nothing(self) -> bool:
        """Whether the call is a view, an allocation or a check, or has nothing to write."""
        if self.operator.is_view or launches_nothing(self.name):
            return True
        return not any(tensor.numel() for tensor in self.written)

    @cached_property
    def _values(self) -> tuple[Any, ...]:
        """The value of every argument of the operator's schema, in order."""
        arguments = _arguments_of(self.operator)
        missing = arguments[len(self.args) :]
        return (*self.args, *(self.kwargs.get(each.name, each.default) for each in missing))

    def argument(self, name: str) -> Any:
        """Return the value of the argument called ``name``; ``None`` if there is no such one."""
        for argument, value in zip(_arguments_of(self.operator), self._values, strict=True):
            if argument.name == name:
                return value
        return None

    @cached_property
    def inputs(self) -> tuple[tuple[str, torch.Tensor], ...]:
        """Every tensor passed in, with the name of the argument that holds it.

        A tensor passed only to be overwritten (``out=``) is not an input.
        """
        arguments = zip(_arguments_of(self.operator), self._values, strict=True)
        return tuple(
            (argument.name, tensor)
            for argument, value in arguments
            if not argument.is_out
            for tensor in tensors_in(value)
        )

    @cached_property
    def written(self) -> tuple[torch.Tensor, ...]:
        """Every tensor that the call writes: what it returns, and what it changes in place."""
        written = tensors_in(self.result)
        for argument, value in zip(_arguments_of(self.operator), self._values, strict=True):
            if argument.is_written:
                written += tensors_in(value)
        return tuple(written)


@cache
def name_of(operator: torch._ops.OpOverload) -> str:
    """Return the operator's name without namespace and overload, e.g. ``"mm"``."""
    return str(operator._schema.name).split("::")[-1]  # noqa: SLF001


@cache
def _arguments_of(operator: torch._ops.OpOverload) -> tuple[_Argument, ...]:
    return tuple(
        _Argument(
            name=argument.name,
            default=argument.default_value,
            is_out=argument.is_out,
            is_written=argument.alias_info is not None and argument.alias_info.is_write,
        )
        for argument in operator._schema.arguments  # noqa: SLF001
    )


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in ``value``, a tensor or a nest of lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for element in value for tensor in tensors_in(element)]
    return []
