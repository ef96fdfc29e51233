"""How many kernels a library launches for one call of PyTorch."""

import numpy as np

from joulelab.estimator.pricing.kernel_class import PLAIN_GROUPS, WIDE_GROUPS
from joulelab.estimator.pricing.recurrence import cpu_kernels, step_kernels
from joulelab.estimator.pricing.table import Array, WorkTable
from joulelab.hardware.processor import Processor

_OF_A_GROUP = {WIDE_GROUPS: 4, PLAIN_GROUPS: 1}
"""Of each group of a convolution of half precision: its image and its weights are brought into the
layout of matrix units, and its result back (cuDNN on an H200: experiments/results/h200_kernels,
h200_groups)."""


def num_kernels(table: WorkTable, processor: Processor) -> Array:
    """Return how many kernels a call of each group launches; 1 of most."""
    if processor.family == "cpu":
        named = ((table.operators[row], table.classes[row]) for row in table.main)
        return np.array([cpu_kernels(*one) for one in named], dtype=float)
    if processor.family != "gpu":
        return np.ones(table.num_rows)
    return np.array([_kernels(table, row) for row in table.main], dtype=float)


def _kernels(table: WorkTable, row: int) -> float:
    found = table.classes[row]
    if found in _OF_A_GROUP and table.element_b[row] == 2:
        return _OF_A_GROUP[found] * float(table.shapes.batch[row])
    return max(1.0, step_kernels(table.operators[row], found))
