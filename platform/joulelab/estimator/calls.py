"""One operator call as PyTorch's dispatcher sees it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from joulelab.estimator.kinds import Kind, kind_of, launches_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return str(self.operator._schema.name).split("::")[-1]  # noqa: SLF001

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

    @property
    def arguments(self) -> Iterator[tuple[torch.Argument, Any]]:
        """Every argument of the operator's schema with its value, in order."""
        for index, argument in enumerate(self.operator._schema.arguments):  # noqa: SLF001
            if index < len(self.args):
                yield argument, self.args[index]
            else:
                yield argument, self.kwargs.get(argument.name, argument.default_value)

    def argument(self, name: str) -> Any:
        """Return the value of the argument called ``name``; ``None`` if there is no such one."""
        return next((value for argument, value in self.arguments if argument.name == name), None)

    @property
    def inputs(self) -> tuple[tuple[str, torch.Tensor], ...]:
        """Every tensor passed in, with the name of the argument that holds it.

        A tensor passed only to be overwritten (``out=``) is not an input.
        """
        return tuple(
            (argument.name, tensor)
            for argument, value in self.arguments
            if not argument.is_out
            for tensor in tensors_in(value)
        )

    @property
    def written(self) -> tuple[torch.Tensor, ...]:
        """Every tensor that the call writes: what it returns, and what it changes in place."""
        changed = [
            tensor
            for argument, value in self.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tensors_in(value)
        ]
        return (*tensors_in(self.result), *changed)


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in ``value``, a tensor or a nest of lists and tuples."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
