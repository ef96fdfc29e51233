"""Trace what a model does on fake tensors, and say clearly why if that is impossible.

Imports torch, so it is imported only by functions that trace a model.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.estimator.tracing.trace import fake_tensors

_UNSUITABLE = (RuntimeError, AssertionError, ValueError)
"""What networks raise on inputs of a shape or type that they were not made for."""

_DATA_DEPENDENT = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


@contextmanager
def fake_run(title: str) -> Generator[None]:
    """Run a ``with`` block on fake tensors.

    Raises:
        ConfigError: If the block needs the values of a tensor, or the network refuses its inputs.
    """
    try:
        with fake_tensors():
            yield
    except ConfigError:
        raise
    except _DATA_DEPENDENT as error:
        operator = getattr(error, "func", None) or error
        raise ConfigError(
            f"{title} cannot be traced: its shapes or its course depend on the values of its data "
            f"({operator}), and a trace has shapes without values. Trace the part before or after."
        ) from error
    except _UNSUITABLE as error:
        reason = str(error) or type(error).__name__
        raise ConfigError(f"{title} cannot be traced so: {reason}") from error


def grouped_products() -> AbstractContextManager[object]:
    """Let fake grouped products, of experts, have any number format; PyTorch's take bfloat16."""
    return _GroupedProducts()  # type: ignore[no-untyped-call]


class _GroupedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @override
    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        if func.overloadpacket is not torch.ops.aten._grouped_mm:  # noqa: SLF001
            return func(*args, **(kwargs or {}))
        a, b = args[:2]
        if a.dim() == b.dim() == 2:  # groups along the summed axis, as in a backward pass
            num_groups = (kwargs or {}).get("offs", args[-1]).shape[0]
            return a.new_empty((num_groups, a.shape[0], b.shape[1]))
        return a.new_empty((*a.shape[:-1], b.shape[-1]))


@contextmanager
def quiet(library: str) -> Generator[None]:
    """Keep a library's hints about weights, of which there are none here, from the user."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def torch_dtype(name: str) -> torch.dtype:
    """Return PyTorch's type called ``name``."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ConfigError(f"{name} is no number format of PyTorch.")
    return dtype


def shape_text(tensor: torch.Tensor) -> str:
    """Return the shape for people, ``"8x3x224x224"``."""
    return "x".join(str(int(size)) for size in tensor.shape) or "1"


def shapes_of(inputs: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the shapes of ``inputs`` for people."""
    return {name: shape_text(tensor) for name, tensor in inputs.items()}


def cast(inputs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return ``inputs`` with the floating-point ones in ``dtype``."""
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in inputs.items()
    }
