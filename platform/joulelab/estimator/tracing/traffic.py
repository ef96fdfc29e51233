"""Bytes that one operator call moves to and from device memory.

In eager mode every kernel reads its inputs from memory and writes its outputs back. Whether a
cache serves part of that is the device's business, not the program's.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from joulelab.estimator.tracing.calls import Call

# Kernels that read only the rows they pick, as many bytes as they write.
_PICKED_FROM = {
    "embedding": "weight",
    "index": "self",
    "_unsafe_index": "self",
    "index_select": "self",
    "gather": "self",
    "take": "self",
}
# Kernels that write in place only as many bytes as they are given.
_WRITTEN_FROM = {
    "index_copy_": "source",
    "index_put_": "values",
    "_index_put_impl_": "values",
    "scatter_": "src",
    "index_add_": "source",
    "scatter_add_": "src",
}
# Products whose rows are shared out among matrices, of experts.
_GROUPED = {"_grouped_mm", "_scaled_grouped_mm"}
_ACCUMULATING = {"index_add_", "scatter_add_"}
# Kernels that take their first tensor for its shape, or overwrite all of it.
_UNREAD = {
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_"),
    *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_full", "fill", "_foreach_copy_", "_foreach_zero_"),
}


class Access(NamedTuple):
    """A tensor that a call reads or writes, and how many of its bytes."""

    tensor: torch.Tensor
    moved_b: int


class Traffic(NamedTuple):
    """What a call reads and writes: a tensor passed twice once."""

    read: tuple[Access, ...]
    written: tuple[Access, ...]


def traffic(call: Call) -> Traffic:
    """Return what ``call`` reads and writes.

    A tensor passed twice is read once; elements that a broadcast repeats are counted once.
    """
    source = call.argument(_WRITTEN_FROM[call.name]) if call.name in _WRITTEN_FROM else None
    if isinstance(source, torch.Tensor):
        changed = (Access(call.argument("self"), stored_b(source)),)
        accumulates = call.name in _ACCUMULATING or call.argument("accumulate")
        return Traffic((*_read(call, skip="self"), *(changed if accumulates else ())), changed)
    skip = "self" if call.name in _UNREAD else ""
    return Traffic(_read(call, skip=skip), _whole(call.written))


def stored_b(tensor: torch.Tensor) -> int:
    """Return the bytes that ``tensor`` occupies; an expanded dimension holds one element."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or not size else 1
    return elements * tensor.element_size()


def moved_b(accesses: Iterable[Access]) -> int:
    """Return the bytes of all ``accesses``."""
    return sum(access.moved_b for access in accesses)


def _read(call: Call, *, skip: str) -> tuple[Access, ...]:
    table = _PICKED_FROM.get(call.name)
    read = _whole([tensor for name, tensor in call.inputs if name not in (skip, table)])
    if call.name in _GROUPED:
        return _of_groups_with_rows(call, read)
    if table is None:
        return read
    return (Access(call.argument(table), moved_b(_whole(call.written))), *read)


def _of_groups_with_rows(call: Call, read: tuple[Access, ...]) -> tuple[Access, ...]:
    """Read only the matrices of groups that have rows; of few rows each has a group of its own.

    So one token reads the weights of the experts that it is sent to, not those of all.
    """
    rows, matrices = call.argument("self"), call.argument("mat2")
    if rows.dim() != 2 or matrices.dim() != 3:
        return read
    share = min(1.0, rows.shape[0] / matrices.shape[0])
    return tuple(
        Access(tensor, round(each_b * share)) if tensor is matrices else Access(tensor, each_b)
        for tensor, each_b in read
    )


def _whole(tensors: Sequence[torch.Tensor]) -> tuple[Access, ...]:
    if len(tensors) == 1:
        return (Access(tensors[0], stored_b(tensors[0])),)
    places = {
        (
            tensor.untyped_storage()._cdata,  # noqa: SLF001
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
        ): tensor
        for tensor in tensors
    }
    return tuple(Access(tensor, stored_b(tensor)) for tensor in places.values())
