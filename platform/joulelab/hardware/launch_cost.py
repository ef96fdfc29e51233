"""What a host takes for the calls of a program, from what calls take in a loop on it.

In a loop, calls of PyTorch differ: in half precision a batch norm takes 2.4 times as long as the
layer norm that ``joulelab calibrate --host`` measures. Each is taken as so many times a call that
is measured, by how both went in a loop on one host (experiments/results/h200_hosts). A program
takes longer for all of them, and for its modules and views.
"""

from collections.abc import Mapping

LAUNCHES = 1.18
"""Launches of a program over those of a loop: arguments, checks, caches that others have used."""
MODULES = 2.0
"""Modules entered, over an empty one's call. From none to three fit equally well where cores are
undisturbed; two let ResNet-18 slow down as it does where others share the core."""
VIEWS = 0.57
"""Calls that launch nothing, of views, arguments and checks, over a launch in a loop."""
TRAINING = 1.6
"""Host time of a step of training over that of its kernels in inference: the gradient's graph.

Fitted together to 84 programs, and 7 steps of training, behind four H200s on cores that nobody
disturbed (experiments/results/h200_hosts)."""

_HALF = ("float16", "bfloat16")
_CALLS: Mapping[str, tuple[str, float]] = {
    "default": ("add", 1.0),
    "copy": ("add", 1.5),
    "concatenation": ("add", 1.2),
    "strided_concatenation": ("add", 1.2),
    "filling": ("add", 1.25),
    "reduction": ("add", 1.2),
    "indexing": ("add", 1.65),
    "embedding": ("add", 1.5),
    "gemm": ("linear", 1.4),
    "conv": ("conv2d", 2.1),
    "pixel_convolution": ("conv2d", 1.15),
    "depthwise_narrow": ("conv2d", 0.85),
    "depthwise_wide": ("conv2d", 0.85),
    "attention": ("attention", 1.5),
    "norm": ("layer_norm", 1.0),
    "group_norm": ("layer_norm", 2.5),
    **{f"batch_norm_{dtype}": ("layer_norm", 2.4) for dtype in _HALF},
    "batch_norm_float32": ("layer_norm", 1.5),
}
"""By kind or class of kernel: the call that is measured, and over it the bfloat16 call of such
kernels. Convolutions bring images into the layout of matrix units and back, but for windows of
single pixels; half precision converts the statistics of a batch before it normalises, while
cuDNN normalises float32: 1.4 layer norms in a loop, and in programs 0.64 of half precision's 2.4
(operators_by_format.csv, profile.json.gz there)."""


def eager_launch_s(operator_s: Mapping[str, float]) -> dict[str, float]:
    """Return seconds of a launch in a program, by kind or class, from those of calls in a loop."""
    return {name: LAUNCHES * times * operator_s[call] for name, (call, times) in _CALLS.items()}
