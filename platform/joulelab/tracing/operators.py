"""Describe operator calls as operators of a program, which read and write values.

A value is what one write left in a storage. All views of a storage are the same value, and a write
through any of them makes a new one.
"""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Literal

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from joulelab.core.cost import Pipe
from joulelab.errors import ConfigError
from joulelab.tracing.calls import Access, Call, Traffic, moved_b, traffic
from joulelab.tracing.layouts import layout_of
from joulelab.tracing.program import MATRIX_KINDS, MatrixShape, Operator, Stage
from joulelab.tracing.work import RECURRENT, flop, matrix_shape, waits_of

Role = Literal["parameter", "state", "input", "made"]
"""Of the network; of the optimizer; passed in otherwise; made in the program."""


@dataclass(slots=True)
class Storage:
    """One storage that is alive."""

    role: Role
    value: int  # identifier of what it holds
    size_b: int
    is_written: bool  # whether anything was written to it; what was passed in was
    released: weakref.ref[torch.UntypedStorage]


class Storages:
    """The storages of a program that are alive.

    Attributes:
        live_b: Bytes made in the program and alive, less those passed in and freed since.
        peak_live_b: Most of them so far.
        size_b: Bytes by role of all storages that were ever known.
    """

    def __init__(self) -> None:
        self.live_b = 0
        self.peak_live_b = 0
        self.size_b: Counter[Role] = Counter()
        self._alive: dict[int, Storage] = {}
        self._values = count(1)

    def declare(self, tensors: Iterable[torch.Tensor], role: Role) -> int:
        """Make the storages of ``tensors`` known; return the bytes of those that were not."""
        before_b = self.size_b[role]
        for tensor in tensors:
            for part in dense_parts(tensor):
                self.of(part, role)
        return self.size_b[role] - before_b

    def of(self, tensor: torch.Tensor, role: Role = "input") -> Storage:
        """Return the storage of ``tensor``, which has ``role`` if it was not known yet."""
        try:
            untyped = tensor.untyped_storage()
        except NotImplementedError as error:
            raise ConfigError(
                f"Only dense tensors are traced, got one of layout {tensor.layout}. "
                "Convert it with to_dense()."
            ) from error
        known = self._alive.get(untyped._cdata)  # noqa: SLF001
        if known is None:
            key, size_b = untyped._cdata, untyped.nbytes()  # noqa: SLF001
            released = weakref.ref(untyped, lambda _: self._release(key))
            storage = Storage(role, next(self._values), size_b, role != "made", released)
            self._alive[key] = storage
            self._count(role, size_b)
            return storage
        if known.size_b != untyped.nbytes():  # resized
            self._count(known.role, untyped.nbytes() - known.size_b)
            known.size_b = untyped.nbytes()
        return known

    def write(self, storage: Storage) -> int:
        """Return the identifier of a new value, which ``storage`` holds from now on."""
        storage.value = next(self._values)
        storage.is_written = True
        return storage.value

    def _count(self, role: Role, size_b: int) -> None:
        self.size_b[role] += size_b
        if role == "made":
            self.live_b += size_b
            self.peak_live_b = max(self.peak_live_b, self.live_b)

    def _release(self, key: int) -> None:
        self.live_b -= self._alive.pop(key).size_b


def dense_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield what holds the bytes of ``tensor``: itself, or the parts of a quantised one."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from dense_parts(getattr(tensor, name))


def tensors_held(value: object, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """Yield the tensors in ``value``: a nest of containers, and of objects that hold tensors."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        for part in _parts(value):
            yield from tensors_held(part, seen)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return ()
    return vars(value).values()


class Describer:
    """Describes calls in the order in which they are made; counts why some could not be counted."""

    def __init__(self, storages: Storages, *, tf32_matmul: bool, tf32_conv: bool) -> None:
        self.uncounted: Counter[str] = Counter()
        self._storages = storages
        self._tf32_matmul = tf32_matmul
        self._tf32_conv = tf32_conv

    def operator(self, call: Call, *, module: str, stage: Stage) -> Operator:
        """Return ``call`` as an operator; its tensors hold new values afterwards."""
        moved = traffic(call)
        weights, activations = self._parted(moved.read)
        inputs = self._values_read(activations, moved.written)
        outputs = self._values_written(moved.written)
        shape = matrix_shape(call) if call.kind in MATRIX_KINDS else None
        pipe, operations = self._work(call, shape) or ("fp32", None)
        return Operator(
            name=call.name,
            kind=call.kind,
            module=module,
            dtype=_dtype_of(call),
            pipe=pipe,
            flop=operations or 0.0,
            read_b=float(moved_b(activations)),
            weight_b=float(moved_b(weights)),
            written_b=float(moved_b(moved.written)),
            shape=shape,
            inputs=tuple(inputs),
            inputs_b=tuple(inputs.values()),
            outputs=tuple(outputs),
            outputs_b=tuple(outputs.values()),
            steps=waits_of(call),
            layout=layout_of(call),
            contiguous=_contiguous_share(call, moved),
            stage=stage,
            has_formula=operations is not None,
        )

    def _work(self, call: Call, shape: MatrixShape | None) -> tuple[Pipe, float] | None:
        try:
            return (
                _pipe_of(call, tf32_matmul=self._tf32_matmul, tf32_conv=self._tf32_conv),
                flop(call, shape),
            )
        except ConfigError as reason:
            self.uncounted[str(reason)] += 1
            return None

    def _parted(self, read: Sequence[Access]) -> tuple[list[Access], list[Access]]:
        weights: list[Access] = []
        activations: list[Access] = []
        for access in read:
            is_weight = self._storages.of(access.tensor).role == "parameter"
            (weights if is_weight else activations).append(access)
        return weights, activations

    def _values_read(self, read: Sequence[Access], written: Sequence[Access]) -> dict[int, float]:
        """Return the values read, and those of which a write leaves something, with their bytes."""
        values: dict[int, float] = {}
        for tensor, size_b in read:
            value = self._storages.of(tensor).value
            values[value] = values.get(value, 0.0) + size_b
        for tensor, size_b in written:
            storage = self._storages.of(tensor)
            if size_b < storage.size_b and storage.is_written and storage.role != "parameter":
                values.setdefault(storage.value, 0.0)
        return values

    def _values_written(self, written: Sequence[Access]) -> dict[int, float]:
        sizes_b: dict[int, float] = {}
        storages = {}
        for tensor, size_b in written:
            storage = self._storages.of(tensor)
            if size_b:
                storages[id(storage)] = storage
                sizes_b[id(storage)] = sizes_b.get(id(storage), 0.0) + size_b
        return {self._storages.write(each): sizes_b[key] for key, each in storages.items()}


def _dtype_of(call: Call) -> str:
    tensors = [tensor for _, tensor in call.inputs] or list(call.written)
    floating = (tensor for tensor in tensors if tensor.dtype.is_floating_point)
    return _dtype_name(next(floating, tensors[0]).dtype)


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


_MATRIX_PIPES: dict[torch.dtype, Pipe] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "tensor_fp16",
    torch.bfloat16: "tensor_bf16",
    torch.float8_e4m3fn: "tensor_fp8",
    torch.float8_e5m2: "tensor_fp8",
    torch.int8: "tensor_int8",
    torch.uint8: "tensor_int8",
}
_DOUBLE = (torch.float64, torch.complex128)


def _pipe_of(call: Call, *, tf32_matmul: bool, tf32_conv: bool) -> Pipe:
    """Return the pipe on which ``call`` runs.

    Products take that of their operands. Everything else computes in single precision, whatever it
    stores, unless a double is among its tensors; integer work is put there too. TF32 is not for
    attention: in single precision its kernel keeps that whatever is allowed (``DefaultGemmType``,
    aten/src/ATen/native/transformers/cuda/mem_eff_attention). Raises ConfigError if no matrix pipe
    multiplies the operands' type. What allows it to convolutions allows it to cuDNN's recurrent
    layers, too.
    """
    if call.kind not in MATRIX_KINDS:
        tensors = (*(tensor for _, tensor in call.inputs), *call.written)
        return "fp64" if any(tensor.dtype in _DOUBLE for tensor in tensors) else "fp32"
    dtype = call.inputs[0][1].dtype
    of_cudnn = call.kind == "conv" or call.name in RECURRENT
    allowed = call.kind != "attention" and (tf32_conv if of_cudnn else tf32_matmul)
    if dtype == torch.float32 and allowed:
        return "tensor_tf32"
    if dtype not in _MATRIX_PIPES:
        raise ConfigError(
            f"{call.operator} multiplies {dtype} (counted are "
            f"{', '.join(str(known) for known in _MATRIX_PIPES)})"
        )
    return _MATRIX_PIPES[dtype]


def _contiguous_share(call: Call, moved: Traffic) -> float:
    """Return the share of the bytes that ``call`` moves with a stride of one element, 0..1.

    A kernel walks along the innermost dimension of what it writes; tensors of the same shape
    count as contiguous if theirs is the same. Products take matrices in either order, and other
    tensors count by their own innermost dimension.
    """
    accesses = (*moved.read, *moved.written)
    total_b = moved_b(accesses)
    if not total_b:
        return 1.0
    lead = None if call.kind in MATRIX_KINDS else moved.written[0].tensor
    return moved_b(one for one in accesses if _is_contiguous(one, lead)) / total_b


def _is_contiguous(access: Access, lead: torch.Tensor | None) -> bool:
    tensor = access.tensor
    if lead is not None and tensor.shape == lead.shape and tensor is not lead:
        innermost = _innermost(lead)
        return innermost is None or tensor.stride(innermost) in (0, 1)
    return tensor.numel() <= 1 or _innermost(tensor) is not None or not any(tensor.stride())


def _innermost(tensor: torch.Tensor) -> int | None:
    """Return the dimension along which elements are neighbours; ``None`` if there is none."""
    sizes, strides = tensor.shape, tensor.stride()
    for dimension in range(len(sizes) - 1, -1, -1):
        if strides[dimension] == 1 and sizes[dimension] > 1:
            return dimension
    return None
