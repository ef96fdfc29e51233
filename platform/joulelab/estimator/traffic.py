"""Bytes that one operator call moves to and from device memory.

In eager mode every kernel reads its inputs from memory and writes its outputs back. Whether a
cache serves part of that is the device's business, not the program's.
"""

import torch

from joulelab.estimator.calls import Call

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
_ACCUMULATING = {"index_add_", "scatter_add_"}
# Kernels that take their first tensor for its shape, or overwrite all of it.
_UNREAD = {
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_"),
    *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_full", "fill"),
}


def dram_b(call: Call) -> int:
    """Return the bytes that ``call`` reads plus those that it writes.

    A tensor passed twice is read once; elements that a broadcast repeats are counted once.
    """
    source = call.argument(_WRITTEN_FROM.get(call.name, ""))
    if isinstance(source, torch.Tensor):
        passes = 2 if call.name in _ACCUMULATING or call.argument("accumulate") else 1
        return _read_b(call, skip="self") + passes * stored_b(source)
    return _read_b(call, skip="self" if call.name in _UNREAD else "") + _unique_b(call.written)


def stored_b(tensor: torch.Tensor) -> int:
    """Return the bytes that ``tensor`` occupies; an expanded dimension holds one element."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or not size else 1
    return elements * tensor.element_size()


def _read_b(call: Call, *, skip: str) -> int:
    table = _PICKED_FROM.get(call.name)
    picked_b = 0 if table is None else _unique_b(call.written)
    tensors = [tensor for name, tensor in call.inputs if name not in (skip, table)]
    return picked_b + _unique_b(tuple(tensors))


def _unique_b(tensors: tuple[torch.Tensor, ...]) -> int:
    places = {
        (
            tensor.untyped_storage()._cdata,  # noqa: SLF001
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
        ): stored_b(tensor)
        for tensor in tensors
    }
    return sum(places.values())
