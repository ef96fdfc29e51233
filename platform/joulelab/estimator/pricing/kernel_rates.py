"""What the kernels of each class reach of a device's rates, and the least time that they take."""

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import Pipe
from joulelab.core.physics import STEP_S
from joulelab.estimator.pricing.kernel_class import (
    FIRST_CONVOLUTION,
    GROUPED_CONVOLUTION,
    LAYER_NORM,
    PRODUCT,
    reduced_elements,
)
from joulelab.estimator.pricing.matrix_work import LOAD_B
from joulelab.estimator.pricing.table import WorkTable, kind_name
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import element_b, pipe_on
from joulelab.tracing.program import MATRIX_KINDS, Operator

Array = NDArray[np.float64]

_NARROW_GROUP = 32
"""Channels of a group up to which one kernel computes all groups of a convolution: on an H100, 32
groups of up to 32 channels take 11 us (ResNeXt-50), 4 to 36 groups of 56 each (RegNetY-8GF)."""
_WINDOW_PROLOGUE = 27.0
"""Elements of a window of few channels that take as long as what precedes them: windows of 27 reach
half the rate of large ones on an H100 (VGG, MobileNet, ResNet, ViT)."""
_ROW_PROLOGUE = 730.0
"""Elements of a row that take as long as what precedes them where a layer is normalised: each row
has a block of threads. 60 shapes in 22 networks on an H200 take 1.11 ns a row, of 32 to 2,048
elements, and 1.5 ps an element, in cache or not (experiments/results/h200_kernels)."""
_UNALIGNED = 0.25
"""Rate of products whose rows are no whole units of 16 bytes over that of others: libraries take
kernels of an older board for them. 124 and 163 TFLOP/s for rows of 196, where others reach 576 and
653, on an H200 (MLP-Mixer; experiments/results/h200_kernels)."""
_FEW_ROWS = 16
"""Rows or columns up to which a product reads its weights, and how it multiplies is no matter."""
_HALF = ("float16", "bfloat16")
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
    if processor.timing.layout_efficiency is None:
        return pipes
    return [
        "fp32" if found == FIRST_CONVOLUTION and pipe.startswith("tensor_") else pipe
        for found, pipe in zip(table.classes, pipes, strict=True)
    ]


def overhead_s(table: WorkTable, processor: Processor) -> Array:
    """Return the least time of each group: that of matrix work is longer where that is known."""
    return np.array([_least_s(table, row, processor) for row in table.main])


def waits_s(table: WorkTable, core_s: Array) -> Array:
    """Return by how much steps that wait for each other exceed work: of recurrence, of resizing."""
    waits_s = np.array([one.steps * _step_s(one) for one in table.operators])
    return table.per_group(np.maximum(0.0, waits_s - core_s))


def _step_s(operator: Operator) -> float:
    if operator.name == "upsample_bicubic2d":
        return _BICUBIC_STEP_S
    return STEP_S if operator.kind == "gemm" else 0.0


def _least_s(table: WorkTable, row: int, processor: Processor) -> float:
    """Return the least time of an operator row; wide groups run one kernel after the other."""
    operator, timing = table.operators[row], processor.timing
    least_s = timing.overhead_s(table.classes[row], kind_name(operator) in MATRIX_KINDS)
    is_wide = table.classes[row] == GROUPED_CONVOLUTION and table.shapes.n[row] > _NARROW_GROUP
    return least_s * float(table.shapes.batch[row]) if is_wide else least_s


def efficiency(table: WorkTable, row: int, processor: Processor) -> float:
    """Return what an operator row reaches of its pipe's rate, or of a stream's bandwidth."""
    operator, found = table.operators[row], table.classes[row]
    reached = processor.timing.efficiency((found, kind_name(operator)), operator.dtype)
    if found == FIRST_CONVOLUTION:
        k = float(table.shapes.k[row])
        return reached * k / (k + _WINDOW_PROLOGUE)
    timing = processor.timing  # has classes where kernels were measured within networks
    if found == PRODUCT and PRODUCT in timing.least_s and not _is_aligned(table, row):
        return reached * _UNALIGNED
    is_known = found in timing.kind_efficiency
    return reached * _reduced_share(table, row, processor) if is_known else reached


def _is_aligned(table: WorkTable, row: int) -> bool:
    """Return whether rows of operands and results are whole units of 16 bytes, or it is no matter.

    Matrix units alone load whole units; single precision is computed element by element.
    """
    shapes, operator = table.shapes, table.operators[row]
    if operator.dtype not in _HALF or min(shapes.m[row], shapes.n[row]) < _FEW_ROWS:
        return True
    rows_b = np.array([shapes.n[row], shapes.k[row]]) * table.element_b[row]
    return not (rows_b % LOAD_B).any()


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
    is_matrix_work = [table.operators[row].kind in MATRIX_KINDS for row in table.main]
    return np.array(
        [
            1.0 if matrix_work else efficiency(table, row, processor)
            for row, matrix_work in zip(table.main, is_matrix_work, strict=True)
        ]
    )
