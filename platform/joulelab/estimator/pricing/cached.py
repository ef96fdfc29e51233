"""What a processor's last cache serves of the bytes that kernels move, and the main memory.

A batch that grows leaves the cache bit by bit: the share that is found there falls, no threshold.
"""

import numpy as np
from numpy.typing import NDArray

from joulelab.estimator.pricing.table import WorkTable
from joulelab.hardware.processor import Processor
from joulelab.tracing.precision import is_matrix

Array = NDArray[np.float64]

_PARAMETER_SHARE = 0.5
"""Share of the last cache up to which a whole model's parameters are found there; estimated, as
other data passes through."""
_PASSING = 2.0
"""Bytes that a product's smallest matrix needs of the cache over its own, since the others pass
through: at 0.56 of the cache it does not stay (power of a bf16 product of 4096 on an H200)."""
_IN_PARTS = ("tpu", "kpu")
"""Families whose compilers plan what lies in the last cache: a batch whose activations exceed it
runs in parts, each of which reads the parameters anew, where that moves less; estimated."""


def missed_share(activation_b: Array, size_b: float) -> Array:
    """Return the share, 0..1, of a kernel's activations that a last cache no longer has.

    It grows with them up to the cache's size. Times of 1,715 classes of kernels, each in a network
    on an H100 or an H200 (experiments/results/h100_kernels, h200_kernels), are met better so than
    with a step at 0.6 of the cache or with a share that grows from 0.1, 0.2, 0.3 or 0.6 of it on.
    """
    return np.minimum(activation_b / size_b, 1.0)


def served(table: WorkTable, processor: Processor) -> tuple[Array, Array]:
    """Return the bytes of the last cache and of the main memory, of each group.

    All bytes pass through the last cache. Of activations that the program made a part is found
    there, all parameters where the whole model's fit. What is passed in, such as a key-value cache,
    was used a whole step ago: it is there if it fits with the parameters.
    """
    size_b, kept_b = processor.last_cache.size_b, table.parameter_b
    weight_b = table.weight_b * (kept_b > _PARAMETER_SHARE * size_b)
    kept_b += float(table.outside_b[table.sequence].sum())
    outside_b = table.outside_b * (kept_b > _PARAMETER_SHARE * size_b)
    activation_b = table.read_b + table.written_b
    missed_b = (activation_b - outside_b) * missed_share(activation_b, size_b)
    all_b = activation_b + table.weight_b
    again_b = np.where(all_b > size_b, _reread_b(table, processor), 0.0)
    if processor.family in _IN_PARTS:
        in_parts_b = np.maximum(1.0, np.ceil(activation_b / size_b)) * weight_b
        missed_b = np.minimum(missed_b, np.maximum(in_parts_b - weight_b, 0.0))
        again_b = np.where(table.weight_b > 0, np.minimum(again_b, in_parts_b), again_b)
    memory_b = np.maximum(missed_b + outside_b + weight_b, again_b)
    return np.maximum(all_b, memory_b), memory_b


def _reread_b(table: WorkTable, processor: Processor) -> Array:
    """Return the least traffic that blocking in the last cache allows products.

    In a cache of S bytes, intensity goes with sqrt(S) and with element size to the power -3/2. A
    product whose smallest matrix stays in the cache reads the others once.
    """
    flop_per_b = processor.timing.cache_flop_per_b * (2 / table.element_b) ** 1.5
    is_product = np.array(
        [is_matrix(operator) and operator.kind != "attention" for operator in table.operators]
    )
    m, n, k = table.shapes.m, table.shapes.n, table.shapes.k
    smallest = np.minimum(m * k, np.minimum(k * n, m * n))
    # Where the shape is not known, no matrix stays.
    smallest_b = np.where(table.has_shape, smallest * table.element_b, np.inf)
    missed = missed_share(_PASSING * smallest_b, processor.last_cache.size_b)
    return table.per_group(is_product * missed * table.flop / flop_per_b)
