"""Answer calls on fake tensors without asking PyTorch's fake mode twice the same question.

Networks repeat their layers, and most of a trace's time went to what operators make of the same
inputs. A view is made by the operator's own kernel, which for fake tensors computes shapes alone;
the results of other calls are made as they were of equal inputs, where each is a new tensor.
"""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    _BypassDispatchCache,
    in_kernel_invocation_manager,
)
from typing_extensions import TypeIs

from joulelab.tracing.calls import tensors_in

_UNDECLARED_VIEW = torch.ops.aten._unsafe_view.default  # noqa: SLF001


class _NotFakeError(Exception):
    """A call has arguments that no fake tensors of fixed shape are."""


class _Made(NamedTuple):
    """A tensor of a storage of its own, as a call makes it."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


class _Answer(NamedTuple):
    """What a call returns: one tensor, or several in a container of type ``container``."""

    device: torch.device
    made: tuple[_Made | None, ...]
    container: type | None

    def again(self, mode: FakeTensorMode) -> object:
        """Return new tensors of a fake mode."""
        with in_kernel_invocation_manager(mode):
            bare = [
                each
                and torch.empty_strided(each.shape, each.stride, dtype=each.dtype, device="meta")
                for each in self.made
            ]
        tensors = [each if each is None else FakeTensor(mode, each, self.device) for each in bare]
        return tensors[0] if self.container is None else self.container(tensors)


_MOST_KNOWN = 100_000
"""Answers that are kept, of about a kilobyte each; a network has some hundreds."""


class RepeatedCalls:
    """Runs operators, and answers those on fake tensors that it knows, of whatever trace."""

    def __init__(self) -> None:
        self._known: dict[object, _Answer | None] = {}

    def run(
        self, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> object:
        """Return what ``func(*args, **kwargs)`` returns."""
        is_view = func.is_view or func is _UNDECLARED_VIEW
        if is_view and args and _is_plain(args[0]):
            return _view(func, args, kwargs)
        try:
            key = _key(func, args, kwargs)
            answer = self._known.get(key)
        except (_NotFakeError, TypeError):  # such as a number that cannot be hashed
            return func(*args, **kwargs)
        if answer is not None:
            mode: FakeTensorMode = tensors_in([*args, *kwargs.values()])[0].fake_mode  # type: ignore[attr-defined]
            return answer.again(mode)
        result = func(*args, **kwargs)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _answer(func, args, kwargs, result)
        return result


def _is_plain(value: object) -> TypeIs[FakeTensor]:
    """Whether ``value`` is a fake tensor of which the fake mode knows no more than its shape."""
    return type(value) is FakeTensor and value.constant is None and not value.dtype.is_complex


def _view(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch.Tensor | Sequence[torch.Tensor]:
    base = args[0]
    with in_kernel_invocation_manager(base.fake_mode):
        views: Any = func(*args, **kwargs)
    if isinstance(views, torch.Tensor):
        return FakeTensor(base.fake_mode, views, base.fake_device)
    return [FakeTensor(base.fake_mode, view, base.fake_device) for view in views]


def _key(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[object, ...]:
    return (
        *(func, torch.is_inference_mode_enabled(), torch.get_default_dtype()),
        *map(_part, args),
        *((name, _part(value)) for name, value in kwargs.items()),
    )


def _part(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        if not _is_plain(value):
            raise _NotFakeError
        place = value.storage_offset(), value.requires_grad
        return value.shape, value.stride(), value.dtype, value.fake_device, place
    if isinstance(value, list | tuple):
        return type(value), *map(_part, value)
    return type(value), value


def _answer(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: object
) -> _Answer | None:
    """Return how to make ``result`` again; ``None`` where that is more than new tensors."""
    outputs: Sequence[Any] = [*result] if isinstance(result, list | tuple) else [result]
    made = [each for each in outputs if _is_plain(each)]
    given = tensors_in([*args, *kwargs.values()])
    if not made or not given or len(made) < sum(each is not None for each in outputs):
        return None
    if not (_is_cacheable(func, args, kwargs, made[0].fake_mode) and _are_apart(made, given)):
        return None
    answer = _Answer(
        device=made[0].fake_device,
        made=tuple(
            each if each is None else _Made(each.shape, each.stride(), each.dtype)
            for each in outputs
        ),
        container=type(result) if isinstance(result, list | tuple) else None,
    )
    sizes_b = [_size_b(each) for each in tensors_in(answer.again(made[0].fake_mode))]
    return answer if sizes_b == [_size_b(each) for each in made] else None


def _is_cacheable(
    func: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    mode: FakeTensorMode,
) -> bool:
    """Whether nothing but the shapes of its inputs decides what ``func`` makes."""
    if func._schema.is_mutable or func.is_view:  # noqa: SLF001
        return False
    try:
        mode._validate_cache_key(func, args, kwargs)  # noqa: SLF001
    except _BypassDispatchCache:
        return False
    return True


def _are_apart(made: Sequence[FakeTensor], given: Sequence[torch.Tensor]) -> bool:
    """Whether each of ``made`` has a storage of its own on one device, and starts it."""
    storages = {_storage(each) for each in made}
    if len(storages) < len(made) or storages & {_storage(each) for each in given}:
        return False
    return not any(
        each.storage_offset() or each.fake_device != made[0].fake_device for each in made
    )


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001


def _size_b(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


@contextmanager
def unprofiled() -> Generator[None]:
    """Keep what records a call from a profile function in Python, which would double its time."""
    profile = sys.getprofile()
    if not callable(profile):  # none, or one in C, which cannot be set again from here
        yield
        return
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profile)
