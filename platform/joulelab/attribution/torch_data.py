"""Data of a program's tensors: what kernels draw depends on it, as on the zeros of a causal mask.

Small tensors are kept whole. Of each section of a large one a run of numbers is kept, and repeated
over its section: values, and how they lie beside each other, stay those of the program.
"""

from math import ceil, sqrt

import torch

from joulelab.tracing.layouts import extent

_SECTIONS = 64
_MOST_KEPT = 1 << 21
"""Numbers of a tensor that are kept."""


def sample_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return what a tensor's memory holds, on the host: bytes of shape (sections, kept of each)."""
    size = extent(tensor.shape, tensor.stride())
    flat = tensor.detach().as_strided((size,), (1,))
    sections = _SECTIONS if size > _MOST_KEPT else 1
    section, kept = size // sections, min(size, _MOST_KEPT) // sections
    starts = (n * section + int(_place(n) * (section - kept)) for n in range(sections))
    rows = torch.stack([flat[start : start + kept] for start in starts])
    return rows.view(torch.uint8).cpu()


def _place(number: int) -> float:
    """Return where in its section numbers are kept, 0 to 1: no period of the data is met again."""
    return number * (sqrt(5) - 1) / 2 % 1.0


def filled(sample: torch.Tensor, size: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return ``size`` numbers on a device, with the data of a sample; shape (size,)."""
    sections, kept_b = sample.shape
    section_b = size // sections * dtype.itemsize
    repeats = ceil(section_b / kept_b) if kept_b else 1
    flat = sample.to(device).repeat(1, repeats)[:, :section_b].flatten()
    rest_b = size * dtype.itemsize - flat.numel()
    return torch.cat([flat, flat[:rest_b]]).view(dtype)
