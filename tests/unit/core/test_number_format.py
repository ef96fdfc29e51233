"""Number formats against the vendors' tables."""

import pytest

from joulelab.core.number_format import BITS, FORMATS, number_format
from joulelab.errors import UnknownNameError


def test_the_first_capabilities_with_matrix_units_are_those_of_the_cuda_programming_guide():
    """Volta is 7.0, Turing 7.5, Ampere 8.0 and Ada 8.9."""
    since = {name: each.since for name, each in FORMATS.items() if each.since > (0, 0)}

    assert since == {
        "fp16": (7, 0), "int8": (7, 5), "tf32": (8, 0), "bf16": (8, 0), "int4": (8, 0),
        "fp8": (8, 9),
    }  # fmt: skip


def test_bits_are_those_that_are_multiplied_and_tf32_is_stored_in_four_bytes():
    assert BITS == {
        "fp64": 64, "fp32": 32, "tf32": 19, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4,
    }  # fmt: skip
    assert [number_format(name).stored_b for name in ("fp64", "tf32", "fp16")] == [8, 4, 2]


def test_weights_are_quantised_from_half_precision_and_operands_with_them():
    """Four bits carry a half-precision scale for every 128 weights: 4.125 of 16 bits."""
    quantised = {name for name, each in FORMATS.items() if each.is_quantised}
    shares = {name: (FORMATS[name].weight, FORMATS[name].operand) for name in quantised}

    assert shares == {"fp8": (0.5, 0.5), "int8": (0.5, 0.5), "int4": (4.125 / 16, 1.0)}
    assert {name for name, each in FORMATS.items() if not each.on_cpu} == {"tf32", "fp8"}


def test_every_format_says_in_which_one_it_is_traced():
    assert {name: each.traced for name, each in FORMATS.items()} == {
        "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16",
        **dict.fromkeys(("fp16", "fp8", "int8", "int4"), "float16"),
    }  # fmt: skip


def test_a_format_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(UnknownNameError, match="fp16"):
        number_format("fp17")
