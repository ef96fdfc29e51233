"""What the kernels of each class reach of a device's rates, and the least time that they take."""

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import Pipe
from joulelab.core.physics import STEP_S
from joulelab.estimator.pricing.kernel_class import FIRST_CONVOLUTION, GROUPED_CONVOLUTION
from joulelab.estimator.pricing.table import WorkTable, kind_name
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import pipe_on
from joulelab.tracing.program import MATRIX_KINDS

Array = NDArray[np.float64]

_NARROW_GROUP = 32
"""Channels of a group up to which one kernel computes all groups of a convolution: on an H100, 32
groups of up to 32 channels take 11 us (ResNeXt-50), 4 to 36 groups of 56 each (RegNetY-8GF)."""
_WINDOW_PROLOGUE = 27.0
"""Elements of a window of few channels that take as long as what precedes them: windows of 27 reach
half the rate of large ones on an H100 (VGG, MobileNet, ResNet, ViT)."""


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
    """Return by how much steps of recurrent layers, each waiting for the last, exceed work."""
    steps = np.array([one.steps * (one.kind == "gemm") for one in table.operators])
    return table.per_group(np.maximum(0.0, STEP_S * steps - core_s))


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
    if found != FIRST_CONVOLUTION:
        return reached
    k = float(table.shapes.k[row])
    return reached * k / (k + _WINDOW_PROLOGUE)


def stream_efficiency(table: WorkTable, processor: Processor) -> Array:
    """Return what each group reaches of a stream's bandwidth: of the kinds that only stream."""
    is_matrix_work = [table.operators[row].kind in MATRIX_KINDS for row in table.main]
    return np.array(
        [
            1.0 if matrix_work else efficiency(table, row, processor)
            for row, matrix_work in zip(table.main, is_matrix_work, strict=True)
        ]
    )
