"""Floating-point operations of one operator call; a fused multiply-add counts two.

Matrix products and convolutions are counted by PyTorch's own registry
(``torch.utils.flop_counter``) where it has a formula, and by the few below where it has none.

Other kernels never bound a device by their arithmetic, so they are counted coarsely: one
operation per element written, per element read for reductions, and a few for normalisations.
"""

from collections.abc import Callable
from math import prod

from torch.utils.flop_counter import flop_registry

from joulelab.errors import ConfigError
from joulelab.estimator.attention import attention_flop
from joulelab.estimator.calls import Call
from joulelab.estimator.kinds import MATRIX_KINDS

_SOFTMAX_FLOP = 5  # per element: maximum, subtract, exponential, sum, divide
_NORM_FLOP = 8  # per element: mean 1, variance 3, normalise 2, scale and shift 2


def flop(call: Call) -> float:
    """Return the operations that ``call`` executes.

    Raises:
        ConfigError: If it is a matrix product, convolution or attention without a formula.
    """
    if call.kind in MATRIX_KINDS:
        return float(_matrix_flop(call))
    elements_in = sum(tensor.numel() for _, tensor in call.inputs)
    elements_out = sum(tensor.numel() for tensor in call.written[:1])
    match call.kind:
        case "copy" | "gather":
            return 0.0
        case "reduction":
            return float(elements_in)
        case "softmax":
            return float(_SOFTMAX_FLOP * elements_out)
        case "norm":
            return float(_NORM_FLOP * elements_out)
        case _:
            return float(elements_out)


def _matrix_flop(call: Call) -> int:
    formula = _FORMULAS.get(call.name)
    if formula is not None:
        return formula(call)
    registered = flop_registry.get(call.operator.overloadpacket)
    if registered is None:
        raise ConfigError(
            f"The operator {call.operator} is matrix work but has no FLOP formula; "
            "add one to joulelab.estimator.formulas."
        )
    return int(registered(*call.args, **call.kwargs, out_val=call.result))


def _grouped_mm_flop(call: Call) -> int:
    a, b = (call.argument(name).shape for name in ("self", "mat2"))
    num_products = a[0] if len(a) == len(b) == 3 else 1  # else the groups share out one axis
    return int(2 * num_products * a[-2] * a[-1] * b[-1])


def _product_flop(matrix: str, other: str) -> Callable[[Call], int]:
    """Return the formula of a product of ``matrix`` (..., k) with ``other`` ((..., k, n) or k)."""

    def formula(call: Call) -> int:
        left, right = call.argument(matrix).shape, call.argument(other).shape
        return int(2 * prod(left) * (right[-1] if len(right) > 1 else 1))

    return formula


_FORMULAS: dict[str, Callable[[Call], int]] = {
    "_scaled_dot_product_flash_attention_for_cpu": attention_flop,
    "_scaled_dot_product_flash_attention": attention_flop,
    "_scaled_dot_product_efficient_attention": attention_flop,
    "_scaled_dot_product_cudnn_attention": attention_flop,
    "_scaled_dot_product_fused_attention_overrideable": attention_flop,
    "_grouped_mm": _grouped_mm_flop,
    "_scaled_grouped_mm": _grouped_mm_flop,
    "_int_mm": _product_flop("self", "mat2"),
    "_addmm_activation": _product_flop("mat1", "mat2"),
    "addbmm": _product_flop("batch1", "batch2"),
    "mv": _product_flop("self", "vec"),
    "addmv": _product_flop("mat", "vec"),
    "dot": _product_flop("self", "tensor"),
    "vdot": _product_flop("self", "other"),
}
