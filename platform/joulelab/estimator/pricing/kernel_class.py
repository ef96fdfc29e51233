"""Which kernels run alike within a network, finer than by what they compute.

Within networks, kernels of one kind differ by which library they come from and how they read: an
affine normalisation over a batch streams, one over a layer reduces every row first. Classes have
efficiencies and least times of their own, measured within networks
(benchmarks/fit_networks.py); what has no class is priced by its kind.
"""

from collections.abc import Callable, Mapping

from joulelab.tracing.precision import is_depthwise
from joulelab.tracing.program import Operator

FIRST_CONVOLUTION = "first_convolution"
GROUPED_CONVOLUTION = "grouped_convolution"
LAYER_NORM = "layer_norm"
PRODUCT = "product"
_NORMS = ("batch_norm", "layer_norm", "group_norm")
_REDUCING = ("native_layer_norm", "native_batch_norm", "native_batch_norm_backward")
_CONTIGUOUS = 0.9
_WIDE_WINDOW = 36
"""Elements of a window from which depthwise convolutions run a kernel of their own."""
_LEAST_K = 8
"""The k of the smallest matrix instructions of half precision."""
_FILLS = ("fill", "zero", "ones", "full", "arange", "new_zeros", "new_ones")


def kernel_class(operator: Operator, *, training: bool = False) -> str:
    """Return the class of ``operator``; its kind where it has none, or no name of PyTorch's."""
    if operator.name == operator.kind:
        return operator.kind
    found = _CLASSES[operator.kind](operator)
    if "_backward" in operator.name:
        return f"{found}_backward"
    return f"{found}_training" if training and found == "batch_norm" else found


def reduced_elements(operator: Operator) -> float:
    """Return how many elements a normalisation reduces to each statistic; 0 of other work.

    Over layers that is a row, over batches in training a channel of all images. Their kernels
    write statistics, or gradients of as many parameters, beside the result.
    """
    if operator.name not in _REDUCING or len(operator.outputs_b) < 3:
        return 0.0
    return operator.outputs_b[0] / operator.outputs_b[1]


def _convolution(operator: Operator) -> str:
    shape = operator.shape
    if is_depthwise(operator) and shape is not None:
        if shape.n > 1:
            return "thin_groups"
        return "depthwise_wide" if shape.window >= _WIDE_WINDOW else "depthwise_narrow"
    if shape is None or "backward" in operator.name:
        return "convolution"
    if _has_few_channels(shape.k / shape.window):
        return FIRST_CONVOLUTION
    return GROUPED_CONVOLUTION if shape.batch > 1 else "convolution"


def _has_few_channels(channels: float) -> bool:
    """Return whether a window has too few input channels for matrix units: an image's colours."""
    return channels < 8  # the k of the smallest matrix instructions


def _norm(operator: Operator) -> str:
    return next((norm for norm in _NORMS if norm in operator.name), "other_norm")


def _product(operator: Operator) -> str:
    if "rnn" in operator.name:
        return "recurrent"
    return "batched_product" if "bmm" in operator.name else PRODUCT


def _copy(operator: Operator) -> str:
    name = operator.name
    if name == "cat":
        return "concatenation"
    if name.startswith(_FILLS):
        return "filling"
    return "rearrangement" if operator.contiguous < _CONTIGUOUS else "copying"


_CLASSES: Mapping[str, Callable[[Operator], str]] = {
    "conv": _convolution,
    "norm": _norm,
    "copy": _copy,
    "gemm": _product,
    "reduction": lambda operator: "pooling" if "pool" in operator.name else "row_reduction",
    "elementwise": lambda operator: (
        "resizing" if operator.name.startswith("upsample") else "pointwise"
    ),
    "attention": lambda _: "fused_attention",
    "softmax": lambda _: "row_softmax",
    "gather": lambda _: "indexing",
}
