"""What it takes to bring activations into the layout of matrix units, and back.

PyTorch keeps images channel by channel unless told otherwise. The convolutions of cuDNN on tensor
cores want all channels of a pixel side by side, so each brings its input into that layout and its
result back, in kernels of their own. A product over single pixels needs neither, and compilers
keep one layout for the whole network: there a convolution is fused with what follows it.

On an H200 in half precision, a convolution of 64 images of 64 x 56 x 56 takes 89 us, and 41 us
where its images have that layout already: 48 us for 103 MB.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import Pipe
from joulelab.estimator.graph.table import WorkTable
from joulelab.hardware.processor import Processor

Array = NDArray[np.float64]

ACTIVATION_SHARE = 0.6
"""Share of the last cache up to which a group's activations are found there; estimated, as other
data passes through."""
_OVERLAP = 1.5
"""Windows that hold more than this many times the input overlap: their kernel is no 1 x 1."""
_KERNELS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutWork:
    """Columns over groups.

    Attributes:
        seconds: Time at the default clock.
        cache_b: Bytes of the last cache.
        memory_b: Bytes of the main memory.
    """

    seconds: Array
    cache_b: Array
    memory_b: Array


def layout_work(table: WorkTable, processor: Processor, pipes: list[Pipe]) -> LayoutWork:
    """Return what the convolutions of ``table`` that run on ``pipes`` add."""
    efficiency = processor.timing.layout_efficiency
    nothing = np.zeros(table.num_rows)
    if efficiency is None:
        return LayoutWork(seconds=nothing, cache_b=nothing, memory_b=nothing)
    activation_b = table.read_b + table.written_b
    moved_b = np.where(_changes_layout(table, pipes), 2 * activation_b, 0.0)
    in_cache = activation_b <= ACTIVATION_SHARE * processor.last_cache.size_b
    cache, memory = processor.last_cache, processor.memory
    rate = np.where(in_cache, cache.bandwidth_b_per_s, memory.bandwidth_b_per_s)
    overhead_s = _KERNELS * processor.timing.overhead_s(is_matrix=False) * (moved_b > 0)
    return LayoutWork(
        seconds=moved_b / (efficiency * processor.timing.memory_efficiency * rate) + overhead_s,
        cache_b=moved_b,
        memory_b=np.where(in_cache, 0.0, moved_b),
    )


def _changes_layout(table: WorkTable, pipes: list[Pipe]) -> NDArray[np.bool_]:
    """Return which groups are a single convolution over windows on matrix units."""
    alone = np.bincount(table.member_group, minlength=table.num_rows) == 1
    shapes = table.shapes
    windows_b = shapes.batch * shapes.m * shapes.k * table.element_b
    on_matrix = np.array(
        [
            operator.kind == "conv" and pipe.startswith("tensor_")
            for operator, pipe in zip(table.operators, pipes, strict=True)
        ],
        dtype=bool,
    )
    main = table.main
    overlaps = windows_b[main] > _OVERLAP * table.read_b
    changes: NDArray[np.bool_] = alone & on_matrix[main] & overlaps
    return changes
