"""Number formats that programs compute in."""

from typing import Literal

FloatPrecision = Literal["fp32", "tf32", "fp16", "bf16"]
"""Formats that PyTorch computes networks in by itself."""
NetworkPrecision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "int4", "fp8"]
"""The same, and those to which weights are quantised."""

BITS = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 19,  # stored as fp32, rounded to be multiplied
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "int8": 8,
    "int4": 4,
}
"""Bits of a number that is multiplied, by format."""
STORED_B = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
"""Bytes of a number in memory, of formats that are stored number by number."""
