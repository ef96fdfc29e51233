"""What kernels reach of a device's rates, and the least time that they take."""

from typing import NamedTuple

import numpy as np

from joulelab.core.cost import Pipe
from joulelab.core.power_law import STEP_S
from joulelab.estimator.pricing.kernel_class import (
    BATCHED_PRODUCT,
    CHANNELS_LAST,
    CONVOLUTION,
    FIRST_CHANNELS_LAST,
    FIRST_CONVOLUTION,
    GROUP_NORM,
    LAYER_NORM,
    ON_PLAIN_UNITS,
    ONE_BY_ONE,
    PIXEL_CONVOLUTION,
    PLAIN_GROUPS,
    PRODUCT,
    classes_like,
    is_aligned,
    reduced_elements,
)
from joulelab.estimator.pricing.occupancy import missed_share
from joulelab.estimator.pricing.recurrence import is_recurrent
from joulelab.estimator.pricing.table import Array, WorkTable, kind_name
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import element_b, pipe_on
from joulelab.tracing.program import MATRIX_KINDS, Operator

_STRIP = 32


def strips_used(channels: Array) -> Array:
    """Return the share that ``channels`` fill of strips: plain units convolve 32 at a time.

    64 channels take twice as long as 32 (VGG-11 and MobileNet-V2 on an H200), and 24 as long.
    """
    used: Array = channels / (_STRIP * np.ceil(channels / _STRIP))
    return used


_WINDOW_PROLOGUE = 27.0
"""Elements of a window of few channels that take as long as what precedes them: windows of 27 reach
half the rate of large ones on an H100 (VGG, MobileNet, ResNet, ViT)."""
_LAST_PROLOGUE = 60.0
"""The same where channels of a pixel are adjacent: of 60, 100 and 140 the one with least errors in
53 cases of 19 networks on two H200s (experiments/results/h200_channels_last, h200_compiled)."""
_PRODUCT_PROLOGUES = {"float32": 64.0}
_PRODUCT_PROLOGUE = 160.0
"""Elements of a product's sums, of fp32 and of narrower numbers, that take as long as what precedes
them within a network, where its data comes from the main memory first: 208 profiles of 41 networks
on an H100 and an H200, each of which has least errors at the same two figures. A loop shows none.
"""
_PROLOGUES = {
    FIRST_CHANNELS_LAST: _LAST_PROLOGUE,
    FIRST_CONVOLUTION: _WINDOW_PROLOGUE,
    CHANNELS_LAST: _PRODUCT_PROLOGUE,
    CONVOLUTION: _PRODUCT_PROLOGUE,
    PIXEL_CONVOLUTION: _PRODUCT_PROLOGUE,
}
"""Convolutions on matrix units run as products do: 374 shapes with windows in 16 networks on an
H100 and an H200 have least errors together at 165, and 1,198 of single pixels at 93."""
_ROW_PROLOGUE = 730.0
"""Elements of a row that take as long as what precedes them where a layer is normalised: each row
has a block of threads. 60 shapes in 22 networks on an H200 take 1.11 ns a row, of 32 to 2,048
elements, and 1.5 ps an element, in cache or not (experiments/results/h200_kernels)."""
_UNALIGNED = 0.25
"""Rate of products whose rows are no whole units of 16 bytes over that of others: libraries take
kernels of an older board for them. 124 and 163 TFLOP/s for rows of 196, where others reach 576 and
653, on an H200 (MLP-Mixer; experiments/results/h200_kernels)."""
_BATCHED_SIDE = 64.0
"""Longest least side of the batched products whose rates within networks are known: heads of
attention (experiments/results/h100_kernels, h200_kernels). Longer ones are taken to gain in
proportion, until they run as single products do."""
_CHANNELS_PER_CORE = {"batch_norm_training": 1.0, "batch_norm_backward": 2.0}
"""Channels that a core reduces at a time when batches are normalised in training: a block of
threads takes a channel of all images, so that few channels leave most cores idle. On an H200, 16
and 96 channels of 128 images of 112 x 112 take the same 1.3 and 2.8 ms, forward and backward."""
_WARP = 32
_BLOCK_THREADS = 512
"""Threads of a block that sums up a group: a warp, or this where there are as many elements
(``RowwiseMomentsCUDAKernel``, aten/src/ATen/native/cuda/group_norm_kernel.cu)."""
_CACHED_STEP_CLOCKS = 454.0
_WARP_STEP_CLOCKS, _WARP_START_CLOCKS = 14.4, 74.0
"""What a step waits for where the last cache answers, and what warps of a core take in turn for a
step and to begin. 56 shapes of that kernel, of one to 24 steps in 32 to 4,096 blocks, in four
programs of a U-Net on an H200 are met to 5 % in the mean (experiments/results/h200_kernels)."""
_PLAIN_GROUP_STEP_S = 1.12e-7
"""Time of an element of a window where plain units convolve groups: 0.111 to 0.117 us at batch 1 on
an H200, 0.122 to 0.132 at 16, of 48 to 128 channels (experiments/results/h200_groups)."""
_BICUBIC_STEP_S = 1.2e-7
"""Time of one of the 16 pixels that a bicubic resizing reads for each of all images and channels:
they are loaded together (3.98 ms for 2,112 of them on an H200, YOLOS)."""


def pipes_of(table: WorkTable, processor: Processor) -> list[Pipe]:
    """Return the pipe of each operator row.

    Kernels that take images channel by channel multiply windows of few channels on plain units, and
    cuDNN those of some groups.
    """
    pipes = [pipe_on(operator, processor) for operator in table.operators]
    if FIRST_CONVOLUTION not in processor.timing.kind_efficiency:
        return pipes
    return [
        "fp32" if found in ON_PLAIN_UNITS and pipe.startswith("tensor_") else pipe
        for found, pipe in zip(table.classes, pipes, strict=True)
    ]


def overhead_s(table: WorkTable, processor: Processor) -> Array:
    """Return the least time of each group: that of matrix work is longer where that is known."""
    return np.array([_least_s(table, row, processor) for row in table.main])


class GroupSums(NamedTuple):
    """How kernels sum up groups of channels; nothing for other work, and off GPUs."""

    steps: Array  # of each thread
    turns_s_mhz: Array  # time at 1 MHz in which warps take turns at it, before all else


def group_sums(table: WorkTable, processor: Processor) -> GroupSums:
    """Return how each group's kernel sums up: a block of threads for each, however large."""
    main = [table.operators[row] for row in table.main]
    is_gpu = processor.family == "gpu"
    elements = np.array(
        [reduced_elements(one) * (is_gpu and one.name == GROUP_NORM) for one in main]
    )
    written = table.written_b / table.element_b[table.main]
    blocks = np.divide(written, elements, out=np.zeros_like(written), where=elements > 0)
    threads = np.where(elements < _BLOCK_THREADS, _WARP, _BLOCK_THREADS)
    steps, warps = np.ceil(elements / threads), blocks * threads / _WARP / processor.num_cores
    clocks = warps * (steps * _WARP_STEP_CLOCKS + _WARP_START_CLOCKS)
    return GroupSums(steps=steps, turns_s_mhz=1e-6 * clocks)


def waits_s(table: WorkTable, processor: Processor, core_s: Array, sums: GroupSums) -> Array:
    """Return by how much steps that wait for each other exceed work, and turns of warps."""
    is_gpu = processor.family == "gpu"
    waits_s = np.array([one.steps * _step_s(one, is_gpu=is_gpu) for one in table.operators])
    waits_s[is_recurrent(table, processor)] = 0.0  # its steps are counted kernel by kernel
    is_plain = np.array([found == PLAIN_GROUPS for found in table.classes])
    waits_s += is_plain * _PLAIN_GROUP_STEP_S * table.shapes.batch * table.shapes.k
    missed = missed_share(table.read_b + table.written_b, processor.last_cache.size_b)
    cached_s = 1e-6 * _CACHED_STEP_CLOCKS / processor.default_clock_mhz
    step_s = (1 - missed) * cached_s + missed * STEP_S
    turns_s = sums.turns_s_mhz / processor.default_clock_mhz
    others_s = table.per_group(np.maximum(0.0, waits_s - core_s))
    return others_s + np.maximum(0.0, sums.steps * step_s - turns_s)


def _step_s(operator: Operator, *, is_gpu: bool) -> float:
    if operator.name == "upsample_bicubic2d":
        return _BICUBIC_STEP_S
    # A compiler's kernel, which keeps no statistics, is taken to wait as long.
    is_compiled = is_gpu and operator.name == GROUP_NORM and not reduced_elements(operator)
    return STEP_S if operator.kind == "gemm" or is_compiled else 0.0


def _least_s(table: WorkTable, row: int, processor: Processor) -> float:
    """Return the least time of an operator row; wide groups run one kernel after the other."""
    operator, timing = table.operators[row], processor.timing
    found = table.classes[row]
    least_s = timing.overhead_s(classes_like(found), kind_name(operator) in MATRIX_KINDS)
    return least_s * float(table.shapes.batch[row]) if found in ONE_BY_ONE else least_s


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
    if BATCHED_PRODUCT in classes_like(found) and PRODUCT in timing.least_s:
        return _batched_rate(table, row, reached, processor)
    is_known = found in timing.kind_efficiency
    return reached * _reduced_share(table, row, processor) if is_known else reached


def _product_share(table: WorkTable, row: int) -> float:
    """Return the rate of a product within a network over that of large ones in a loop."""
    operator, k = table.operators[row], float(table.shapes.k[row])
    if not is_aligned(operator):
        return _UNALIGNED
    prologue = _PRODUCT_PROLOGUES.get(operator.dtype, _PRODUCT_PROLOGUE)
    return k / (k + prologue) if table.has_shape[row] else 1.0


def _batched_rate(table: WorkTable, row: int, reached: float, processor: Processor) -> float:
    """Return the rate of a batched product, of which those of heads ``reached`` so much."""
    shapes, operator = table.shapes, table.operators[row]
    least = min(float(side[row]) for side in (shapes.m, shapes.n, shapes.k))
    names = (PRODUCT, kind_name(operator))
    single = processor.timing.efficiency(names, operator.dtype) * _product_share(table, row)
    return max(reached, min(reached * least / _BATCHED_SIDE, single))


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
