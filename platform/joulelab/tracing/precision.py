"""Number formats: how a program is traced for one, what it changes, and where it runs."""

from collections.abc import Mapping
from dataclasses import replace

from joulelab.core.cost import Pipe
from joulelab.core.number_format import FORMATS, NumberFormat, number_format
from joulelab.errors import ConfigError
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import MATRIX_KINDS, Operator, Program

PRECISIONS: tuple[str, ...] = tuple(FORMATS)
"""Names of number formats."""

_USUAL = ("fp16", "bf16", "fp32", "int8")
"""In which networks usually run, the first that a device has matrix units for."""
_FP16: tuple[Pipe, ...] = ("tensor_fp16", "fp16")
# What a product traced on a pipe may run on, the preferred pipe first. Single precision on TF32
# units is an offer that PyTorch makes for convolutions, so it falls back to plain units.
_MATRIX_PIPES: Mapping[Pipe, tuple[Pipe, ...]] = {
    "fp64": ("tensor_fp64", "fp64"),
    "tensor_fp64": ("tensor_fp64", "fp64"),
    "tensor_tf32": ("tensor_tf32", "fp32"),
    "fp16": _FP16,
    "tensor_fp16": _FP16,
}
_DTYPES: Mapping[Pipe, str] = {
    **dict.fromkeys(("fp64", "tensor_fp64"), "float64"),
    **dict.fromkeys(("fp16", "tensor_fp16"), "float16"),
    "tensor_bf16": "bfloat16",
    "tensor_fp8": "float8_e4m3fn",
    "tensor_int8": "int8",
}
# Weights of four bits are brought to half precision before they are multiplied.
_ELEMENT_B: Mapping[str, float] = {
    **dict.fromkeys(("float64", "int64"), 8.0),
    **dict.fromkeys(("float16", "bfloat16", "int16", "int4"), 2.0),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"), 1.0),
}
_FEW_COLUMNS = 4
"""Output channels per group up to which a grouped convolution uses plain units."""


def element_b(dtype: str) -> float:
    """Return the bytes of one operand of format ``dtype``, as PyTorch names it."""
    return _ELEMENT_B.get(dtype, 4.0)


def dtype_on(pipe: Pipe) -> str:
    """Return the format of operands on ``pipe``, as PyTorch names it, of kernels without one."""
    return _DTYPES.get(pipe, "float32")


def at_precision(program: Program, precision: str) -> Program:
    """Return ``program``, traced in half or full precision, as it runs in ``precision``.

    Matrix work changes pipe. Its weights shrink under fp8, int8 and int4, its other inputs under
    fp8 and int8, a key-value cache with them; results and everything between matrix operators keep
    the traced format. So everything that can be quantised is, convolutions and attention too, as by
    an inference engine. A program that was traced with quantised layers, as those of workloads are,
    holds what PyTorch multiplies; it, like one that this was applied to before, is returned
    unchanged. Raises UnknownNameError if there is no such precision.
    """
    form = number_format(precision)
    if program.precision == precision:
        return program
    changed = [
        form.is_quantised and operator.kind in MATRIX_KINDS and operator.dtype == form.traced
        for operator in program.operators
    ]
    operators = tuple(
        _retyped(operator, form) if is_changed else _repiped(operator, precision)
        for operator, is_changed in zip(program.operators, changed, strict=True)
    )
    if not form.is_quantised or not any(changed):
        return replace(program, operators=operators, precision=precision)
    weight_b = sum(
        operator.weight_b
        for operator, is_changed in zip(program.operators, changed, strict=True)
        if is_changed
    )
    saved_kv_b = program.kv_b * (1 - form.operand)
    return replace(
        program,
        operators=operators,
        parameter_b=program.parameter_b - min(weight_b, program.parameter_b) * (1 - form.weight),
        input_b=program.input_b - saved_kv_b,
        kv_b=program.kv_b - saved_kv_b,
        precision=precision,
    )


def check_precision(precision: str, processor: Processor) -> None:
    """Check that ``processor`` multiplies in ``precision``; ConfigError names what it has."""
    if not supports(precision, processor):
        known = [name for name in PRECISIONS if supports(name, processor)]
        raise ConfigError(
            f"{processor.product_name} has no {precision} units; it has {', '.join(known)}. "
            f"Ask for one of these, as with --precision {usual_precision(processor)}."
        )


def supports(precision: str, processor: Processor) -> bool:
    """Return whether ``processor`` multiplies in ``precision``; UnknownNameError if none."""
    return any(pipe in processor.flop_per_clock for pipe in number_format(precision).pipes)


def usual_precision(processor: Processor) -> str:
    """Return the number format in which a device usually runs networks."""
    return next(
        name
        for name in _USUAL
        if f"tensor_{name}" in processor.flop_per_clock
        or (name == "fp32" and supports(name, processor))
    )


def pipe_on(operator: Operator, processor: Processor) -> Pipe:
    """Return where ``operator`` runs on ``processor``.

    Matrix work takes the matrix pipe of its format if there is one, else the plain pipe of that
    format. Everything else runs on plain fp32 or fp64 units whatever it stores, as do convolutions
    of very few channels per group; a device without such units uses its slowest. Raises ConfigError
    if it has no unit for the format of matrix work; names those that it has.
    """
    if not is_matrix(operator):
        rates = processor.flop_per_clock
        wanted: tuple[Pipe, ...] = ("fp64",) if "fp64" in operator.pipe else ()
        for pipe in (*wanted, "fp32", "fp16"):
            if pipe in rates:
                return pipe
        return min(rates, key=lambda pipe: rates[pipe])
    wanted = _MATRIX_PIPES.get(operator.pipe, (operator.pipe,))
    for pipe in wanted:
        if pipe in processor.flop_per_clock:
            return pipe
    raise ConfigError(
        f"The operator {operator.name!r} multiplies {operator.dtype} and needs "
        f"{' or '.join(wanted)}, which {processor.product_name} lacks; "
        f"it has {', '.join(processor.flop_per_clock)}."
    )


def is_matrix(operator: Operator) -> bool:
    """Return whether ``operator`` is matrix work wide enough for matrix units."""
    return operator.kind in MATRIX_KINDS and not is_depthwise(operator)


def is_depthwise(operator: Operator) -> bool:
    """Return whether ``operator`` is a convolution with very few channels per group."""
    shape = operator.shape
    if operator.kind != "conv" or shape is None or shape.batch == 1:
        return False
    return min(shape.m, shape.n) <= _FEW_COLUMNS


def _retyped(operator: Operator, form: NumberFormat) -> Operator:
    # Under int4 only products with weights change: they are expanded to half precision.
    weights_alone = form.operand == 1 and not operator.weight_b
    return replace(
        operator,
        dtype=operator.dtype if weights_alone else form.dtype,
        pipe=form.pipes[0],
        read_b=operator.read_b * form.operand,
        inputs_b=tuple(size_b * form.operand for size_b in operator.inputs_b),
        weight_b=operator.weight_b * form.weight,
    )


def _repiped(operator: Operator, precision: str) -> Operator:
    """Put single-precision products where PyTorch does: TF32 for convolutions by default.

    Its fused attention multiplies fp32 by a kernel of its own, in TF32 three times for fp32's
    accuracy, whatever products are allowed (mem_eff_attention/gemm_kernel_utils.h).
    """
    if operator.kind not in MATRIX_KINDS or operator.dtype != "float32":
        return operator
    is_allowed = precision == "tf32" and operator.kind != "attention"
    tf32 = is_allowed or operator.kind == "conv" or "rnn" in operator.name
    pipe: Pipe = "tensor_tf32" if tf32 else "fp32"
    return operator if operator.pipe == pipe else replace(operator, pipe=pipe)
