"""How a network is stored and multiplied in each precision.

Floating-point precisions are PyTorch's own. int8, int4 and fp8 are made of a 16-bit network by
torchao: docs/adr/0006-quantisation.md.

Imports torch, so it is imported only by functions that run or trace a network.
"""

import torch

from joulelab.estimator.precision import traced_dtype


def storage_dtype(precision: str) -> torch.dtype:
    """Return the format in which a network is built that will compute in ``precision``.

    Raises:
        UnknownNameError: If there is no such precision.
    """
    dtype: torch.dtype = getattr(torch, traced_dtype(precision))
    return dtype
