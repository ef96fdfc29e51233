"""Whether neighbouring elements of a kernel's tensors are neighbours in memory."""

import torch

from joulelab.estimator.tracing.calls import Call
from joulelab.estimator.tracing.kinds import MATRIX_KINDS
from joulelab.estimator.tracing.traffic import Access, Traffic


def contiguous_share(call: Call, traffic: Traffic) -> float:
    """Return the share of the bytes that ``call`` moves with a stride of one element, 0..1.

    A kernel walks along the innermost dimension of what it writes; tensors of the same shape
    count as contiguous if theirs is the same. Products take matrices in either order, and other
    tensors count by their own innermost dimension.
    """
    accesses = (*traffic.read, *traffic.written)
    moved_b = sum(access.moved_b for access in accesses)
    if not moved_b:
        return 1.0
    lead = None if call.kind in MATRIX_KINDS else traffic.written[0].tensor
    contiguous_b = sum(access.moved_b for access in accesses if _is_contiguous(access, lead))
    return contiguous_b / moved_b


def _is_contiguous(access: Access, lead: torch.Tensor | None) -> bool:
    tensor = access.tensor
    if lead is not None and tensor.shape == lead.shape and tensor is not lead:
        innermost = _innermost(lead)
        return innermost is None or tensor.stride(innermost) in (0, 1)
    return tensor.numel() <= 1 or _innermost(tensor) is not None or not any(tensor.stride())


def _innermost(tensor: torch.Tensor) -> int | None:
    """Return the dimension along which elements are neighbours; ``None`` if there is none."""
    sizes, strides = tensor.shape, tensor.stride()
    for dimension in range(len(sizes) - 1, -1, -1):
        if strides[dimension] == 1 and sizes[dimension] > 1:
            return dimension
    return None
