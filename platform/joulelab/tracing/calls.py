"""One operator call as PyTorch's dispatcher sees it, the kind of its kernel, and bytes it moves.

In eager mode every kernel reads its inputs from memory and writes its outputs back. Whether a
cache serves part of that is the device's business, not the program's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch

from joulelab.tracing.program import Kind


class _Argument(NamedTuple):
    name: str
    default: Any
    is_out: bool
    is_written: bool


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of one operator."""

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
        """Every tensor passed in, with its argument's name; not one only overwritten (``out=``)."""
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


# The first pattern that matches a whole name, without leading underscores, decides. Fused
# recurrent layers, transforms and solvers stand among the products: none has a formula yet, and
# they are to be refused rather than taken for elementwise kernels.
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("gemm", r".*(mm|mv|matmul)_?|v?dot|ger|addr|linear|bilinear|einsum|addmm_activation"),
    (
        "gemm",
        r"(.*_)?(lstm|gru|rnn|rnn_tanh|rnn_relu|rnn_layer)(_backward)?|trilinear|cdist.*|fft_.*",
    ),
    ("gemm", r"linalg_(?!vector_norm).*|cholesky.*|lu_.*|triangular_solve|ormqr|geqrf"),
    ("conv", r".*conv(olution)?([1-3]d)?(_.*)?"),
    ("attention", r".*(attention|scaled_dot_product).*"),
    ("softmax", r".*softmax.*"),
    ("copy", r"(normal|uniform|random|exponential|bernoulli|fill|zero|copy)_|clone|copy|to_copy"),
    ("copy", r"(zeros|ones|full|rand|randn|randint)(_like)?|new_(zeros|ones|full)|scalar_tensor"),
    ("copy", r"cat|stack|fill|arange|linspace|eye|roll|flip|repeat|tril|triu|constant_pad_nd"),
    ("copy", r"(slice|select|diagonal|masked)_scatter_?|scatter_?|index_copy_?|(.*_)?index_put.*"),
    ("copy", r"(slice|select|diagonal|unfold)_backward"),
    ("gather", r"embedding_dense_backward|embedding|index|unsafe_index|index_select|gather|take"),
    ("reduction", r"norm|linalg_vector_norm"),
    ("norm", r".*norm.*"),
    ("reduction", r"(nan)?sum|mean|a?max|a?min|aminmax|argmax|argmin|any|all|prod|logsumexp"),
    ("reduction", r"(var|std)(_mean)?|topk|sort|cumsum|cumprod|median|count_nonzero|.*pool.*"),
)

# Neither a kernel nor traffic: allocation, bookkeeping, and views that declare no alias.
_FREE = r"""
    unsafe_view | reshape_alias | lift | lift_fresh_copy | set_ | resize_
    | empty(_like|_strided)? | new_empty(_strided)? | assert_(async|scalar)
    | local_scalar_dense | sym_.* | is_same_size
"""


@cache
def kind_of(name: str) -> Kind:
    """Return which kind of kernel the operator called ``name`` launches, e.g. for ``"mm"``."""
    plain = name.lstrip("_").removeprefix("foreach_")
    for kind, pattern in _PATTERNS:
        if re.fullmatch(pattern, plain):
            return kind
    return "elementwise"


@cache
def launches_nothing(name: str) -> bool:
    """Whether the operator called ``name`` allocates, views or checks, but runs no kernel."""
    return re.fullmatch(_FREE, name.lstrip("_"), re.VERBOSE) is not None


GROUPED = ("_grouped_mm", "_scaled_grouped_mm")
"""Products whose rows are shared out among matrices, of experts."""
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
    if call.name in GROUPED:
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
