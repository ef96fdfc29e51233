"""Matrix work of one operator call, as products of matrices."""

from collections.abc import Callable
from math import prod

from joulelab.estimator.program import MatrixShape
from joulelab.estimator.tracing.calls import Call

# Arguments that hold the left and the right matrix.
_FACTORS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "vdot": ("self", "other"),
    "addmm": ("mat1", "mat2"),
    "addmm_": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "addbmm": ("batch1", "batch2"),
    "baddbmm": ("batch1", "batch2"),
    "baddbmm_": ("batch1", "batch2"),
    "_addmm_activation": ("mat1", "mat2"),
    "_int_mm": ("self", "mat2"),
    "_scaled_mm": ("self", "mat2"),
}
_PACKED = "_weight_int4pack_mm"
_GROUPED = ("_grouped_mm", "_scaled_grouped_mm")
RECURRENT = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
_GATES = {2: 4, 3: 3}  # of an LSTM and a GRU, by their mode; a plain recurrent layer has one


def matrix_shape(call: Call) -> MatrixShape | None:
    """Return the products that ``call`` computes; ``None`` if that is not known.

    A backward call that computes several products of equal size counts them in ``batch``.
    """
    if call.name in _FACTORS:
        return _product(call)
    if call.name == _PACKED:
        return _packed_product(call)
    if call.name in _GROUPED:
        return _grouped_product(call)
    if call.name in RECURRENT:
        return _recurrent_layer(call)
    return _SHAPES[call.kind](call) if call.kind in _SHAPES else None


def _product(call: Call) -> MatrixShape:
    left, right = (call.argument(name).shape for name in _FACTORS[call.name])
    return MatrixShape(
        batch=prod(left[:-2]),
        m=left[-2] if len(left) > 1 else 1,
        n=right[-1] if len(right) > 1 else 1,
        k=left[-1],
    )


def _packed_product(call: Call) -> MatrixShape:
    """Return the product with weights that are packed in tiles, whose shape says nothing."""
    m, k = call.argument("self").shape
    return MatrixShape(batch=1, m=m, n=call.written[0].shape[1], k=k)


def _grouped_product(call: Call) -> MatrixShape:
    """Groups share out the rows, the columns, or the sums of a product, or have their own."""
    left, right = (call.argument(name).shape for name in ("self", "mat2"))
    groups = call.argument("offs").numel() if len(left) == 2 or len(right) == 2 else left[0]
    m, n, k = left[-2], right[-1], left[-1]
    if len(left) == len(right) == 2:
        k = _share(k, groups)
    elif len(left) == 2:
        m = _share(m, groups)
    elif len(right) == 2:
        n = _share(n, groups)
    return MatrixShape(batch=groups, m=m, n=n, k=k)


def _share(whole: int, groups: int) -> int:
    return -(-whole // groups)


def times_of(call: Call) -> int:
    """Return how many products a recurrent layer computes one after the other."""
    steps = int(call.argument("input").shape[0])
    return 2 * steps if call.name.endswith("_backward") else steps


def _recurrent_layer(call: Call) -> MatrixShape:
    """Return one product per step in time, of input and state with the weights of all gates.

    Each product has two gradients of its size, that of what it multiplies and of the weights.
    """
    _, samples, width = call.argument("input").shape
    hidden = int(call.argument("hidden_size"))
    gates = _GATES.get(call.argument("mode"), 1)
    return MatrixShape(batch=times_of(call), m=samples, n=gates * hidden, k=width + hidden)


def _convolution(call: Call) -> MatrixShape:
    """Return a convolution as implicit GEMM; its two gradients are products of its size."""
    image = call.argument("input" if call.argument("self") is None else "self")
    weight = call.argument("weight")
    groups = int(call.argument("groups") or 1)
    transposed = bool(call.argument("transposed"))
    first, second, *kernel = weight.shape
    if transposed:  # the weight is (input channels, output channels per group, *kernel)
        positions, n, k = image.shape[2:], second * prod(kernel), first // groups
    else:
        positions, n, k = _output_positions(call), first // groups, second * prod(kernel)
    num_products = sum(call.argument("output_mask")[:2]) if _is_gradient(call) else 1
    batch = groups * num_products
    return MatrixShape(batch=batch, m=image.shape[0] * prod(positions), n=n, k=k)


def _output_positions(call: Call) -> tuple[int, ...]:
    output = call.argument("grad_output") if _is_gradient(call) else call.written[0]
    return tuple(output.shape[2:])


def _is_gradient(call: Call) -> bool:
    return call.argument("grad_output") is not None


def _attention(call: Call) -> MatrixShape:
    query, key = (call.argument(name).shape for name in ("query", "key"))
    return MatrixShape(batch=prod(query[:-2]), m=query[-2], n=key[-2], k=query[-1])


_SHAPES: dict[str, Callable[[Call], MatrixShape]] = {
    "conv": _convolution,
    "attention": _attention,
}
