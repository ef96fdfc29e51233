"""Number formats that programs compute in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from joulelab.core.cost import Pipe
from joulelab.registry import unknown_name

FloatPrecision = Literal["fp32", "tf32", "fp16", "bf16"]
"""Formats that PyTorch computes networks in by itself."""
NetworkPrecision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]
"""The same, and those to which weights are quantised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """A number format of matrix work; everything else computes in fp32, or in fp64 under fp64."""

    bits: int  # bits of a number that is multiplied
    dtype: str  # PyTorch's name of a number that is stored by itself
    pipes: tuple[Pipe, ...]  # where products run, the preferred pipe first
    # PyTorch's name of the format in which a program is traced for it; dtype unless weights are
    # quantised.
    traced: str
    built: str  # likewise of the format that a network is built in, and quantised from
    weight: float = 1.0  # size of a weight over its traced size
    operand: float = 1.0  # size of another matrix input over its traced size
    # First CUDA compute capability whose matrix units take it (CUDA C++ programming guide, "Compute
    # Capabilities"); PyTorch emulates bf16 on older ones, at another energy. Of int8 and int4 that
    # of the kernels: docs/adr/0006-quantisation.md.
    since: tuple[int, int]
    on_cpu: bool = True  # whether PyTorch multiplies in it on CPUs

    @property
    def stored_b(self) -> int:
        """Bytes of a number that is stored by itself."""
        return 4 if self.dtype == "float32" else self.bits // 8

    @property
    def is_quantised(self) -> bool:
        """Whether weights take fewer bits than where they are computed with."""
        return self.dtype != self.traced


def _plain(
    bits: int, dtype: str, pipes: tuple[Pipe, ...], since: tuple[int, int], *, on_cpu: bool = True
) -> NumberFormat:
    """Return a format that PyTorch stores and computes in by itself."""
    return NumberFormat(
        bits=bits, dtype=dtype, pipes=pipes, traced=dtype, built=dtype, since=since, on_cpu=on_cpu
    )


_FP16: tuple[Pipe, ...] = ("tensor_fp16", "fp16")
FORMATS: Mapping[str, NumberFormat] = {
    "fp64": _plain(64, "float64", ("tensor_fp64", "fp64"), (0, 0)),
    "fp32": _plain(32, "float32", ("fp32",), (0, 0)),
    # Stored as fp32, rounded to be multiplied.
    "tf32": _plain(19, "float32", ("tensor_tf32",), (8, 0), on_cpu=False),
    "fp16": _plain(16, "float16", _FP16, (7, 0)),
    "bf16": _plain(16, "bfloat16", ("tensor_bf16",), (8, 0)),
    "fp8": NumberFormat(
        bits=8,
        dtype="float8_e4m3fn",
        pipes=("tensor_fp8",),
        traced="float16",
        built="bfloat16",  # all that torchao's row-wise products take
        weight=0.5,
        operand=0.5,
        since=(8, 9),
        on_cpu=False,
    ),
    "int8": NumberFormat(
        bits=8,
        dtype="int8",
        pipes=("tensor_int8",),
        traced="float16",
        built="float16",
        weight=0.5,
        operand=0.5,
        since=(7, 5),
    ),
    "int4": NumberFormat(
        bits=4,
        dtype="int4",
        pipes=_FP16,
        traced="float16",
        built="bfloat16",  # all that torchao's 4-bit kernels take
        weight=4.125 / 16,  # four bits, and a half-precision scale for every 128 weights
        since=(8, 0),
    ),
}
"""Number formats by name."""

BITS = {name: each.bits for name, each in FORMATS.items()}
"""Bits of a number that is multiplied, by format."""


def number_format(precision: str) -> NumberFormat:
    """Return the format called ``precision``; UnknownNameError if there is none."""
    if precision not in FORMATS:
        raise unknown_name("precision", precision, FORMATS)
    return FORMATS[precision]
