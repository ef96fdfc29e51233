"""Kernels whose threads wait for one load after the other, with nothing else to run meanwhile."""

from collections.abc import Callable, Mapping
from math import ceil

from joulelab.estimator.tracing.calls import Call
from joulelab.estimator.tracing.shapes import RECURRENT, times_of

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
    return float(_LOADS_PER_TIME_STEP * times_of(call))


_WAITS: Mapping[str, Callable[[Call], float]] = {
    "native_group_norm": _group_norm,
    "upsample_bicubic2d": _bicubic,
    **dict.fromkeys(RECURRENT, _recurrent),
}
