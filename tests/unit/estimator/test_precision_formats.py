"""What a number format changes of a program, and where a device runs it."""

from dataclasses import replace

import pytest
from programs_by_hand import model, plain_processor, pointwise, product, program

from joulelab.core.number_format import number_format
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.pricing.predict import estimate
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import (
    PRECISIONS,
    at_precision,
    check_precision,
    pipe_on,
    supports,
)


def test_every_precision_says_in_which_format_it_is_traced():
    assert {name: number_format(name).traced for name in PRECISIONS} == {
        "fp64": "float64",
        "fp32": "float32",
        "tf32": "float32",
        "fp16": "float16",
        "bf16": "bfloat16",
        "fp8": "float16",
        "int8": "float16",
        "int4": "float16",
    }


def test_an_unknown_precision_is_answered_with_the_closest_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'fp16'"):
        number_format("fp17")


@pytest.mark.parametrize("precision", ["fp8", "int8"])
def test_eight_bits_halve_weights_and_matrix_inputs_alone(precision):
    before = program(product(64, 128, 256), pointwise(1000), parameter_b=2 * 128 * 256 + 500)

    after = at_precision(before, precision)

    matrix, other = after.operators
    assert matrix.read_b == before.operators[0].read_b / 2
    assert sum(matrix.inputs_b) == matrix.read_b
    assert matrix.weight_b == before.operators[0].weight_b / 2
    assert matrix.written_b == before.operators[0].written_b
    assert other == before.operators[1]
    assert after.parameter_b == 128 * 256 + 500


def test_four_bit_weights_keep_half_precision_arithmetic_and_a_scale_per_128():
    before = program(product(64, 128, 256), parameter_b=2 * 128 * 256)

    after = at_precision(before, "int4")

    assert after.operators[0].pipe == "tensor_fp16"
    assert after.operators[0].read_b == before.operators[0].read_b
    assert after.operators[0].weight_b == 128 * 256 / 2 + 128 * 256 / 128 * 2
    assert after.parameter_b == after.operators[0].weight_b


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_precision_applied_twice_changes_nothing_more(precision):
    once = at_precision(
        program(product(8, 16, 32, precision=precision), pointwise(100), parameter_b=2000),
        precision,
    )

    assert at_precision(once, precision) == once


def test_single_precision_uses_tf32_for_convolutions_alone():
    conv, mm = product(8, 8, 8, precision="fp32", kind="conv"), product(8, 8, 8, precision="fp32")
    gpu, old = PROCESSORS["a100"], PROCESSORS["v100"]

    by_default = at_precision(program(conv, mm), "fp32").operators
    asked_for = at_precision(program(conv, mm), "tf32").operators

    assert [pipe_on(one, gpu) for one in by_default] == ["tensor_tf32", "fp32"]
    assert [pipe_on(one, gpu) for one in asked_for] == ["tensor_tf32", "tensor_tf32"]
    assert [pipe_on(one, old) for one in by_default] == ["fp32", "fp32"]


def test_fused_attention_of_fp32_is_one_kernel_whether_tf32_is_allowed_or_not():
    attention = product(8, 8, 8, precision="fp32", kind="attention")

    made = [at_precision(program(attention), one).operators[0] for one in ("fp32", "tf32")]

    assert made[0] == made[1]
    assert pipe_on(made[1], PROCESSORS["a100"]) == "fp32"


@pytest.mark.parametrize(
    ("precision", "device"),
    [("bf16", "v100"), ("bf16", "t4"), ("tf32", "v100"), ("fp8", "a100"), ("int8", "v100")],
)
def test_a_precision_that_the_device_lacks_is_refused_with_those_it_has(precision, device):
    with pytest.raises(ConfigError, match=rf"no {precision} units; it has fp64, fp32, .*fp16"):
        estimate(
            model(product(8, 8, 8, precision=precision), precision=precision), PROCESSORS[device]
        )


def test_a_matrix_operator_of_another_format_names_what_the_device_has():
    with pytest.raises(ConfigError, match=r"needs tensor_bf16, which .*V100.* lacks; it has"):
        pipe_on(product(8, 8, 8, precision="bf16"), PROCESSORS["v100"])


def test_everything_but_matrix_work_runs_on_plain_units():
    depthwise = product(100, 1, 9, batch=32, kind="conv")

    assert pipe_on(pointwise(8), PROCESSORS["h200"]) == "fp32"
    assert pipe_on(depthwise, PROCESSORS["h200"]) == "fp32"
    assert pipe_on(product(8, 8, 8, precision="fp64"), PROCESSORS["h200"]) == "tensor_fp64"


def test_a_device_without_plain_units_computes_on_what_it_has():
    device = plain_processor(flop_per_clock={"tensor_int8": 1e5})

    assert pipe_on(pointwise(8), device) == "tensor_int8"


def test_support_and_check_agree():
    device = PROCESSORS["l4"]

    for precision in PRECISIONS:
        if supports(precision, device):
            check_precision(precision, device)
        else:
            with pytest.raises(ConfigError):
                check_precision(precision, device)


@pytest.mark.parametrize("precision", ["int8", "int4", "fp8"])
def test_a_program_that_was_quantised_before_it_was_traced_is_left_as_it_is(precision):
    attention = product(8, 16, 32, precision="fp16", kind="attention")

    traced = replace(program(attention, parameter_b=2000), precision=precision)

    assert at_precision(traced, precision) is traced
