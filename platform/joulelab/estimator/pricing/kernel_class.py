"""The class of kernels that an operator runs like.

Within networks, kernels of one kind differ by which library they come from and how they read: an
affine normalisation over a batch streams, one over a layer reduces every row first. Classes have
efficiencies and least times of their own, measured within networks (benchmarks/fit_networks.py);
what has no class is priced by its kind.
"""

from collections.abc import Callable, Mapping

from joulelab.tracing.precision import element_b, is_depthwise
from joulelab.tracing.program import MatrixShape, Operator

BATCHED_PRODUCT = "batched_product"
UNEVEN_BATCHED_PRODUCT = "uneven_batched_product"
CHANNELS_LAST = "channels_last_convolution"
CONVOLUTION = "convolution"
FIRST_CHANNELS_LAST = "first_channels_last"
FIRST_CONVOLUTION = "first_convolution"
FIRST_CONVOLUTIONS = (FIRST_CHANNELS_LAST, FIRST_CONVOLUTION)
LAYER_NORM = "layer_norm"
PIXEL_CONVOLUTION = "pixel_convolution"
PLAIN_GROUPS = "plain_groups"
PRODUCT = "product"
RECURRENT = "recurrent"
RECURRENT_BACKWARD = "recurrent_backward"
WIDE_GROUPS = "wide_groups"
ONE_BY_ONE = (PLAIN_GROUPS, WIDE_GROUPS)
"""Convolutions whose groups run one after the other."""
ON_PLAIN_UNITS = (*FIRST_CONVOLUTIONS, PLAIN_GROUPS)
"""Convolutions that no matrix unit takes, of whatever format."""
_CHANNELS_LAST = {
    "batch_norm": "channels_last_batch_norm",
    "concatenation": "channels_last_concatenation",
    "depthwise_narrow": "channels_last_depthwise",
    FIRST_CONVOLUTION: FIRST_CHANNELS_LAST,
    PIXEL_CONVOLUTION: CHANNELS_LAST,
    CONVOLUTION: CHANNELS_LAST,
    "row_reduction": "channels_last_reduction",
    "thin_groups": "channels_last_thin_groups",
}
"""What takes the place of a class where the channels of a pixel are adjacent."""
_LIKE = {
    **{last: plain for plain, last in _CHANNELS_LAST.items()},
    "embedding": "indexing",
    "fused_pointwise": "pointwise",
    "fused_reduction": "row_reduction",
    "masked_attention": "fused_attention",
    PIXEL_CONVOLUTION: CONVOLUTION,
    "strided_concatenation": "concatenation",
    "strided_pointwise": "pointwise",
    UNEVEN_BATCHED_PRODUCT: BATCHED_PRODUCT,
    PLAIN_GROUPS: "grouped_convolution",
    WIDE_GROUPS: "grouped_convolution",
}
"""Class that stands for another where that was not measured."""
ACTIVITY: Mapping[str, float] = {
    "batch_norm_backward": 0.70,
    CHANNELS_LAST: 0.61,
    "concatenation": 0.51,
    PLAIN_GROUPS: 0.24,
    "resizing": 0.66,
    "strided_concatenation": 0.72,
}
"""Power of busy units in kernels of a class over that in most kernels of GPUs, where networks on
H200s and an H100 have it below three quarters (benchmarks/fit_activity.py): they wait for memory,
or have few blocks."""
_NORMS = ("batch_norm", "layer_norm", "group_norm")
GROUP_NORM = "native_group_norm"
_REDUCING = ("native_layer_norm", "native_batch_norm", "native_batch_norm_backward", GROUP_NORM)
_CONTIGUOUS = 0.9
_NARROW_GROUP = 32
"""Channels of a group up to which one kernel computes all groups of a convolution: on an H100, 32
groups of up to 32 channels take 11 us (ResNeXt-50), 4 to 36 groups of 56 each (RegNetY-8GF)."""
_LONG_WINDOW = 128
_TENSOR_GROUPS = (32, 64)
"""Elements of a window from which cuDNN 9.19 convolves groups of half precision on plain units, but
for groups of so many channels: 48, 96 and 128 of them take 11, 11 and 15 ms at batch 1 on an H200,
32 and 64 take 1.7 and 1.4; of 31 elements none does. wav2vec 2.0 and HuBERT have 48 of 128 elements
(experiments/results/h200_groups)."""
LOAD_B = 16
"""Bytes that matrix units load at a time, side by side."""
_FEW_ROWS = 16
"""Rows or columns up to which a product reads its weights, and how it multiplies is no matter."""
_HALF = ("float16", "bfloat16")
_WIDE_WINDOW = 36
"""Elements of a window from which depthwise convolutions run a kernel of their own."""
_LEAST_K = 8
"""The k of the smallest matrix instructions of half precision: images have fewer colours."""
_ROWS_OF_TABLES = ("embedding", "index_select")
_FILLS = ("fill", "zero", "ones", "full", "arange", "new_zeros", "new_ones")


def kernel_class(operator: Operator, *, training: bool = False) -> str:
    """Return the class of ``operator``; its kind where it has none, or no name of PyTorch's."""
    if operator.name == operator.kind:
        return operator.kind
    found = _CLASSES[operator.kind](operator)
    if "_backward" in operator.name:
        return f"{found}_backward"
    if training and found == "batch_norm":
        return f"{found}_training"
    return _CHANNELS_LAST.get(found, found) if operator.layout == "channels_last" else found


def classes_like(found: str) -> tuple[str, ...]:
    """Return ``found`` and the class that stands for it where it was not measured."""
    return (found, _LIKE[found]) if found in _LIKE else (found,)


def is_aligned(operator: Operator) -> bool:
    """Return whether rows are whole units of 16 bytes, as matrix units load, or it is no matter."""
    shape = operator.shape
    if shape is None or operator.dtype not in _HALF:
        return True
    if shape.batch == 1 and min(shape.m, shape.n) < _FEW_ROWS:
        return True
    size_b = element_b(operator.dtype)
    return not any(length * size_b % LOAD_B for length in (shape.n, shape.k))


def reduced_elements(operator: Operator) -> float:
    """Return how many elements a normalisation reduces to each statistic; 0 of other work.

    Over layers that is a row, over groups a group of an image, over batches in training a channel
    of all images. Their kernels write statistics, or gradients of as many parameters, beside the
    result.
    """
    if operator.name not in _REDUCING or len(operator.outputs_b) < 3:
        return 0.0
    return operator.outputs_b[0] / operator.outputs_b[1]


def _convolution(operator: Operator) -> str:
    shape = operator.shape
    if is_depthwise(operator) and shape is not None:
        return _depthwise(shape)
    if shape is None or "backward" in operator.name:
        return CONVOLUTION
    if shape.k / shape.window < _LEAST_K:
        return FIRST_CONVOLUTION
    if shape.batch > 1:
        return _groups(shape, operator.dtype)
    is_single = shape.pixels > 0 and shape.window == 1  # of no pixels the window is not known
    return PIXEL_CONVOLUTION if is_single else CONVOLUTION


def _groups(shape: MatrixShape, dtype: str) -> str:
    if dtype in _HALF and shape.window >= _LONG_WINDOW and shape.n not in _TENSOR_GROUPS:
        return PLAIN_GROUPS
    return "grouped_convolution" if shape.n <= _NARROW_GROUP else WIDE_GROUPS


def _depthwise(shape: MatrixShape) -> str:
    if shape.n > 1:
        return "thin_groups"
    return "depthwise_wide" if shape.window >= _WIDE_WINDOW else "depthwise_narrow"


def _product(operator: Operator) -> str:
    if "rnn" in operator.name:
        return RECURRENT
    if "bmm" not in operator.name:
        return PRODUCT
    return BATCHED_PRODUCT if is_aligned(operator) else UNEVEN_BATCHED_PRODUCT


def _copy(operator: Operator) -> str:
    name = operator.name
    if name == "cat":
        return "strided_concatenation" if operator.layout == "strided" else "concatenation"
    if name.startswith(_FILLS):
        return "filling"
    return "rearrangement" if operator.contiguous < _CONTIGUOUS else "copying"


def _pointwise(operator: Operator) -> str:
    if operator.name.startswith("upsample"):
        return "resizing"
    is_strided = operator.layout == "strided" and "_backward" not in operator.name
    return "strided_pointwise" if is_strided else "pointwise"


def _attention(operator: Operator) -> str:
    is_masked = operator.layout == "masked" and "_backward" not in operator.name
    return "masked_attention" if is_masked else "fused_attention"


_CLASSES: Mapping[str, Callable[[Operator], str]] = {
    "conv": _convolution,
    "norm": lambda operator: next((norm for norm in _NORMS if norm in operator.name), "other_norm"),
    "copy": _copy,
    "gemm": _product,
    "reduction": lambda operator: "pooling" if "pool" in operator.name else "row_reduction",
    "elementwise": _pointwise,
    "attention": _attention,
    "softmax": lambda _: "row_softmax",
    "gather": lambda operator: "embedding" if operator.name in _ROWS_OF_TABLES else "indexing",
}
