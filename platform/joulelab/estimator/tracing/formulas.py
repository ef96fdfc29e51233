"""Floating-point operations of one operator call; a fused multiply-add counts two.

Matrix products and convolutions follow from their shapes, attention from its own formula, and
anything else of matrix kind from PyTorch's registry (``torch.utils.flop_counter``).

Other kernels never bound a device by their arithmetic, so they are counted coarsely: one
operation per element written, per element read for reductions, and a few for normalisations.
"""

from torch.utils.flop_counter import flop_registry

from joulelab.errors import ConfigError
from joulelab.estimator.program import MatrixShape
from joulelab.estimator.tracing.attention import attention_flop
from joulelab.estimator.tracing.calls import Call
from joulelab.estimator.tracing.kinds import MATRIX_KINDS

_SOFTMAX_FLOP = 5  # per element: maximum, subtract, exponential, sum, divide
_GROUPED = ("_grouped_mm", "_scaled_grouped_mm")
_LISTS = ("_foreach", "_fused")  # operators that work on lists of tensors
_NORM_FLOP = 8  # per element: mean 1, variance 3, normalise 2, scale and shift 2


def flop(call: Call, shape: MatrixShape | None) -> float:
    """Return the operations that ``call``, matrix work of ``shape`` or other, executes.

    Raises:
        ConfigError: If it is a matrix product, convolution or attention without a formula.
    """
    if call.kind in MATRIX_KINDS:
        return float(_matrix_flop(call, shape))
    written = call.written if call.name.startswith(_LISTS) else call.written[:1]
    elements_out = sum(tensor.numel() for tensor in written)
    match call.kind:
        case "copy" | "gather":
            return 0.0
        case "reduction":
            return float(sum(tensor.numel() for _, tensor in call.inputs))
        case "softmax":
            return float(_SOFTMAX_FLOP * elements_out)
        case "norm":
            return float(_NORM_FLOP * elements_out)
        case _:
            return float(elements_out)


def _matrix_flop(call: Call, shape: MatrixShape | None) -> int:
    if call.kind == "attention":
        counted = attention_flop(call)
        if counted is not None:
            return counted
    elif call.name in _GROUPED:
        return _grouped_mm_flop(call)
    elif shape is not None:
        return 2 * shape.batch * shape.m * shape.n * shape.k
    registered = flop_registry.get(call.operator.overloadpacket)
    if registered is None:
        raise ConfigError(f"{call.operator} has no FLOP formula")
    return int(registered(*call.args, **call.kwargs, out_val=call.result))


def _grouped_mm_flop(call: Call) -> int:
    """Groups share out the rows of a product, so their shapes are known only on average."""
    a, b = (call.argument(name).shape for name in ("self", "mat2"))
    num_products = a[0] if len(a) == len(b) == 3 else 1  # else the groups share out one axis
    return int(2 * num_products * a[-2] * a[-1] * b[-1])
