"""What kernels reach of a device's rates, and the least time that they take.

PyTorch keeps images channel by channel unless told otherwise. The convolutions of cuDNN on tensor
cores want all channels of a pixel side by side, so each brings its input into that layout and its
result back, in kernels of their own. A product over single pixels needs neither where an image's
pixels are whole units of 16 bytes: in bf16 on an H100 it takes as long as the product alone where
they are a multiple of 8, and 2.1 to 3.6 times that elsewhere. Compilers keep one layout for the
whole network. On an H200 in half precision, a convolution of 64 images of 64 x 56 x 56 takes 89 us,
and 41 us where its images have that layout already: 48 us for 103 MB.
"""

import numpy as np

from joulelab.core.cost import Pipe
from joulelab.core.power_law import STEP_S
from joulelab.estimator.pricing.kernel_class import (
    FIRST_CONVOLUTION,
    LAYER_NORM,
    LOAD_B,
    PRODUCT,
    WIDE_GROUPS,
    classes_like,
    is_aligned,
    reduced_elements,
)
from joulelab.estimator.pricing.occupancy import missed_share
from joulelab.estimator.pricing.table import Array, WorkTable, kind_name
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import element_b, pipe_on
from joulelab.tracing.program import MATRIX_KINDS, Operator

_STRIP = 32
_OVERLAP = 1.5
"""Windows that hold more than this many times the input overlap: their kernel is no 1 x 1."""
_KERNELS = 2
_HALF_B = 2.0
"""Bytes of half precision: kernels that change a layout take as long for elements of any size
(ResNet-18 at batch 256 on an H200: 1.69 ms in bf16, 1.90 ms in fp32)."""


def strips_used(channels: Array) -> Array:
    """Return the share that ``channels`` fill of strips: plain units convolve 32 at a time.

    64 channels take twice as long as 32 (VGG-11 and MobileNet-V2 on an H200), and 24 as long.
    """
    used: Array = channels / (_STRIP * np.ceil(channels / _STRIP))
    return used


def layout_work(
    table: WorkTable, processor: Processor, pipes: list[Pipe]
) -> tuple[Array, Array, Array]:
    """Return what convolutions that run on ``pipes`` add to each group, to change its layout.

    Seconds at the default clock, and bytes of the last cache and of the main memory.
    """
    efficiency = processor.timing.layout_efficiency
    nothing = np.zeros(table.num_rows)
    if efficiency is None:
        return nothing, nothing, nothing
    activation_b = table.read_b + table.written_b
    times = _layout_changes(table, pipes)
    moved_b = times * activation_b
    cache, memory = processor.last_cache, processor.memory
    missed = missed_share(activation_b, cache.size_b)
    slow = np.where(times > 1, missed, 1.0)
    b_per_s = 1 / ((1 - slow) / cache.bandwidth_b_per_s + slow / memory.bandwidth_b_per_s)
    overhead_s = _KERNELS * processor.timing.overhead_s((), is_matrix=False) * (moved_b > 0)
    reached = efficiency * processor.timing.memory_efficiency * b_per_s
    # What multiplies narrower numbers writes results in half precision.
    element_b = table.element_b[table.main]
    elements = table.read_b / element_b + table.written_b / np.maximum(element_b, _HALF_B)
    seconds = times * elements * _HALF_B / reached + overhead_s
    return seconds, moved_b, missed * moved_b


def _layout_changes(table: WorkTable, pipes: list[Pipe]) -> Array:
    """Return how often each group moves its images to change their layout.

    A single convolution on matrix units over windows reads and writes them once more. One over
    single pixels whose rows are no whole units of 16 bytes either does so, or takes a kernel that
    loads element by element, which is worth half of that, and no less where data is in a cache.
    """
    alone = np.bincount(table.member_group, minlength=table.num_rows) == 1
    shapes = table.shapes
    windows_b = shapes.batch * shapes.m * shapes.k * table.element_b
    on_matrix = np.array(
        [
            operator.kind == "conv"
            and operator.layout != "channels_last"
            and pipe.startswith("tensor_")
            for operator, pipe in zip(table.operators, pipes, strict=True)
        ],
        dtype=bool,
    )
    main = table.main
    overlaps = windows_b[main] > _OVERLAP * table.read_b
    uneven = (shapes.pixels > 1) & (shapes.pixels * table.element_b % LOAD_B != 0)
    times = np.where(overlaps, 2.0, np.where(uneven[main], 1.0, 0.0))
    return np.where(alone & on_matrix[main], times, 0.0)


_WINDOW_PROLOGUE = 27.0
"""Elements of a window of few channels that take as long as what precedes them: windows of 27 reach
half the rate of large ones on an H100 (VGG, MobileNet, ResNet, ViT)."""
_SUM_PROLOGUE = 192.0
"""Elements of a convolution's sums that take as long as what precedes them: 46 profiles of 18
networks on an H200."""
_PROLOGUES = {FIRST_CONVOLUTION: _WINDOW_PROLOGUE, "convolution": _SUM_PROLOGUE}
_ROW_PROLOGUE = 730.0
"""Elements of a row that take as long as what precedes them where a layer is normalised: each row
has a block of threads. 60 shapes in 22 networks on an H200 take 1.11 ns a row, of 32 to 2,048
elements, and 1.5 ps an element, in cache or not (experiments/results/h200_kernels)."""
_PRODUCT_PROLOGUES = {"float32": 64.0}
_PRODUCT_PROLOGUE = 160.0
"""Elements of a product's sums, of fp32 and of narrower numbers, that take as long as what precedes
them within a network, where its data comes from the main memory first: 208 profiles of 41 networks
on an H100 and an H200, each of which has least errors at the same two figures. A loop shows none.
"""
_UNALIGNED = 0.25
"""Rate of products whose rows are no whole units of 16 bytes over that of others: libraries take
kernels of an older board for them. 124 and 163 TFLOP/s for rows of 196, where others reach 576 and
653, on an H200 (MLP-Mixer; experiments/results/h200_kernels)."""
_CHANNELS_PER_CORE = {"batch_norm_training": 1.0, "batch_norm_backward": 2.0}
"""Channels that a core reduces at a time when batches are normalised in training: a block of
threads takes a channel of all images, so that few channels leave most cores idle. On an H200, 16
and 96 channels of 128 images of 112 x 112 take the same 1.3 and 2.8 ms, forward and backward."""
_BICUBIC_STEP_S = 1.2e-7
"""Time of one of the 16 pixels that a bicubic resizing reads for each of all images and channels:
they are loaded together (3.98 ms for 2,112 of them on an H200, YOLOS)."""


def pipes_of(table: WorkTable, processor: Processor) -> list[Pipe]:
    """Return the pipe of each operator row.

    Kernels that take images channel by channel multiply windows of few channels on plain units.
    """
    pipes = [pipe_on(operator, processor) for operator in table.operators]
    if FIRST_CONVOLUTION not in processor.timing.kind_efficiency:
        return pipes
    return [
        "fp32" if found == FIRST_CONVOLUTION and pipe.startswith("tensor_") else pipe
        for found, pipe in zip(table.classes, pipes, strict=True)
    ]


def overhead_s(table: WorkTable, processor: Processor) -> Array:
    """Return the least time of each group: that of matrix work is longer where that is known."""
    return np.array([_least_s(table, row, processor) for row in table.main])


def waits_s(table: WorkTable, processor: Processor, core_s: Array) -> Array:
    """Return by how much steps that wait for each other exceed work."""
    is_gpu = processor.family == "gpu"
    waits_s = np.array([one.steps * _step_s(one, is_gpu=is_gpu) for one in table.operators])
    return table.per_group(np.maximum(0.0, waits_s - core_s))


def _step_s(operator: Operator, *, is_gpu: bool) -> float:
    if operator.name == "upsample_bicubic2d":
        return _BICUBIC_STEP_S
    is_waiting = operator.kind == "gemm" or (is_gpu and operator.name == "native_group_norm")
    return STEP_S if is_waiting else 0.0


def _least_s(table: WorkTable, row: int, processor: Processor) -> float:
    """Return the least time of an operator row; wide groups run one kernel after the other."""
    operator, timing = table.operators[row], processor.timing
    found = table.classes[row]
    least_s = timing.overhead_s(classes_like(found), kind_name(operator) in MATRIX_KINDS)
    return least_s * float(table.shapes.batch[row]) if found == WIDE_GROUPS else least_s


def efficiency(table: WorkTable, row: int, processor: Processor) -> float:
    """Return what an operator row reaches of its pipe's rate, or of a stream's bandwidth."""
    operator, found = table.operators[row], table.classes[row]
    names = (*classes_like(found), kind_name(operator))
    reached = processor.timing.efficiency(names, operator.dtype)
    prologue = _PROLOGUES.get(found)
    if prologue is not None and found in processor.timing.kind_efficiency:
        k = float(table.shapes.k[row])
        return reached * k / (k + prologue)
    timing = processor.timing  # has classes where kernels were measured within networks
    if found == PRODUCT and PRODUCT in timing.least_s:
        return reached * _product_share(table, row)
    is_known = found in timing.kind_efficiency
    return reached * _reduced_share(table, row, processor) if is_known else reached


def _product_share(table: WorkTable, row: int) -> float:
    """Return the rate of a product within a network over that of large ones in a loop."""
    operator, k = table.operators[row], float(table.shapes.k[row])
    if not is_aligned(operator):
        return _UNALIGNED
    prologue = _PRODUCT_PROLOGUES.get(operator.dtype, _PRODUCT_PROLOGUE)
    return k / (k + prologue) if table.has_shape[row] else 1.0


def _reduced_share(table: WorkTable, row: int, processor: Processor) -> float:
    """Return the rate of a normalisation over that of one over long rows or many channels."""
    operator, found = table.operators[row], table.classes[row]
    elements = reduced_elements(operator)
    if not elements:
        return 1.0
    if found == LAYER_NORM:
        return elements / (elements + _ROW_PROLOGUE)
    if found not in _CHANNELS_PER_CORE:
        return 1.0
    channels = operator.outputs_b[1] / element_b(operator.dtype)
    return min(1.0, channels / (_CHANNELS_PER_CORE[found] * processor.num_cores))


def stream_efficiency(table: WorkTable, processor: Processor) -> Array:
    """Return what each group reaches of a stream's bandwidth: of the kinds that only stream."""
    return np.array(
        [
            1.0 if table.operators[row].kind in MATRIX_KINDS else efficiency(table, row, processor)
            for row in table.main
        ]
    )
