"""What one operator call computes: operations, shape, and what it waits for.

A fused multiply-add counts two operations. Matrix products and convolutions follow from their
shapes, attention from its own formula, and anything else of matrix kind from PyTorch's registry
(``torch.utils.flop_counter``).

Other kernels never bound a device by their arithmetic, so they are counted coarsely: one
operation per element written, per element read for reductions, and a few for normalisations.
"""

from collections.abc import Callable, Mapping
from math import ceil, prod

from torch.utils.flop_counter import flop_registry

from joulelab.errors import ConfigError
from joulelab.tracing.calls import GROUPED, Call
from joulelab.tracing.program import MATRIX_KINDS, MatrixShape

_FUSED = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
_SOFTMAX_FLOP = 5  # per element: maximum, subtract, exponential, sum, divide
_LISTS = ("_foreach", "_fused")  # operators that work on lists of tensors
_NORM_FLOP = 8  # per element: mean 1, variance 3, normalise 2, scale and shift 2


def flop(call: Call, shape: MatrixShape | None) -> float:
    """Return the operations that ``call`` executes; ConfigError if matrix work has no formula."""
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
        counted = _attention_flop(call)
        if counted is not None:
            return counted
    elif call.name in GROUPED:
        # Groups share out the rows of a product, so their shapes are known only on average.
        a, b = (call.argument(name).shape for name in ("self", "mat2"))
        num_products = a[0] if len(a) == len(b) == 3 else 1  # else the groups share out one axis
        return int(2 * num_products * a[-2] * a[-1] * b[-1])
    elif shape is not None:
        return 2 * shape.batch * shape.m * shape.n * shape.k
    registered = flop_registry.get(call.operator.overloadpacket)
    if registered is None:
        raise ConfigError(f"{call.operator} has no FLOP formula")
    return int(registered(*call.args, **call.kwargs, out_val=call.result))


def _attention_flop(call: Call) -> int | None:
    """Return the operations of one fused attention; ``None`` if they are not known.

    With a causal mask given as a flag, a fused kernel computes only the scores at and below the
    diagonal, so only those are counted (PyTorch's own registry counts all of them). A backward
    call computes five products, of which one repeats the scores.
    """
    if call.name.removesuffix("_backward") not in _FUSED:
        return None
    query, key, value = (call.argument(name).shape for name in ("query", "key", "value"))
    *batch_and_heads, num_queries, head_dim = query
    num_keys, value_dim = key[-2], value[-1]
    scores = num_queries * num_keys
    if call.argument("is_causal"):
        square = min(num_queries, num_keys)  # the rows below it see all keys
        scores = square * (square + 1) // 2 + (num_queries - square) * num_keys
    width = head_dim + value_dim
    if call.name.endswith("_backward"):
        width = 3 * head_dim + 2 * value_dim
    return int(2 * prod(batch_and_heads) * scores * width)


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
RECURRENT = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
"""Layers that cuDNN runs on a GPU."""


def matrix_shape(call: Call) -> MatrixShape | None:
    """Return the products that ``call`` computes; ``None`` if that is not known.

    A backward call that computes several products of equal size counts them in ``batch``.
    """
    if call.name in _FACTORS:
        return _product(call)
    if call.name == _PACKED:
        m, k = call.argument("self").shape  # weights are packed in tiles, whose shape says nothing
        return MatrixShape(batch=1, m=m, n=call.written[0].shape[1], k=k)
    if call.name in GROUPED:
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


def _times_of(call: Call) -> int:
    """Return how many products a recurrent layer computes one after the other."""
    steps = int(call.argument("input").shape[0])
    return 2 * steps if call.name.endswith("_backward") else steps


def _recurrent_layer(call: Call) -> MatrixShape:
    """Return one product per step in time, of input and state with the weights of all gates.

    Each product has two gradients of its size, that of what it multiplies and of the weights.
    """
    _, samples, width = call.argument("input").shape
    hidden = int(call.argument("hidden_size"))
    gates = int(call.argument("weight1").shape[0]) // hidden
    n, k = gates * hidden, width + hidden
    return MatrixShape(batch=_times_of(call), m=samples, n=n, k=k, gates=gates)


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
        output = call.argument("grad_output") if _is_gradient(call) else call.written[0]
        positions, n, k = tuple(output.shape[2:]), first // groups, second * prod(kernel)
    num_products = sum(call.argument("output_mask")[:2]) if _is_gradient(call) else 1
    batch = groups * num_products
    return MatrixShape(
        batch=batch,
        m=image.shape[0] * prod(positions),
        n=n,
        k=k,
        window=prod(kernel),
        pixels=prod(positions),
    )


def _is_gradient(call: Call) -> bool:
    return call.argument("grad_output") is not None


def _attention(call: Call) -> MatrixShape:
    query, key = (call.argument(name).shape for name in ("query", "key"))
    return MatrixShape(batch=prod(query[:-2]), m=query[-2], n=key[-2], k=query[-1])


_SHAPES: dict[str, Callable[[Call], MatrixShape]] = {
    "conv": _convolution,
    "attention": _attention,
}


_THREADS = 512
"""Threads of a block that reduces."""
_PIXELS_OF_BICUBIC = 16
_LOADS_PER_TIME_STEP = 32
"""Waits of a step in time of cuDNN's LSTM, two kernels of which each needs what the other wrote: 12
to 15 us on an H200 (256 cells, batch 64, in fp32, TF32, fp16 and bf16 alike)."""


def waits_of(call: Call) -> float:
    """Return how many loads a kernel waits for one after the other; 0 for most."""
    wait = _WAITS.get(call.name)
    return 0.0 if wait is None else wait(call)


def _group_norm(call: Call) -> float:
    """Elements that each thread sums up.

    A block of threads takes a group of one image, however large, so that a batch of one keeps 32
    blocks busy (``RowwiseMomentsCUDAKernel``, aten/src/ATen/native/cuda/group_norm_kernel.cu).
    """
    channels, pixels, groups = (call.argument(name) for name in ("C", "HxW", "group"))
    return float(ceil(channels / groups * pixels / _THREADS))


def _bicubic(call: Call) -> float:
    """Pixels that each thread reads: for one pixel of all images and channels, 16 each.

    (``upsample_bicubic2d_out_frame``, aten/src/ATen/native/cuda/UpSampleBicubic2d.cu.)
    """
    images, channels = call.inputs[0][1].shape[:2]
    return float(_PIXELS_OF_BICUBIC * images * channels)


def _recurrent(call: Call) -> float:
    """Every step in time waits for the one before it."""
    return float(_LOADS_PER_TIME_STEP * _times_of(call))


_WAITS: Mapping[str, Callable[[Call], float]] = {
    "native_group_norm": _group_norm,
    "upsample_bicubic2d": _bicubic,
    **dict.fromkeys(RECURRENT, _recurrent),
}
