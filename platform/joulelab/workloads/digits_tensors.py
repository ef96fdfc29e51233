"""Handwritten digits on a device.

Imports torch, so it is imported only by functions that run or trace a network.
"""

import torch
from torch._guards import active_fake_mode

from joulelab.workloads.digits import SIDE_PX, Digits, training_digits
from joulelab.workloads.formats import storage_dtype


def some_digits(batch: int, precision: str, device: torch.device) -> torch.Tensor:
    """Return ``batch`` images, shape (batch, 1, 8, 8), from 0 to 1; they repeat after the last."""
    dtype = storage_dtype(precision)
    if active_fake_mode() is not None:  # has shapes only
        return torch.empty(batch, 1, SIDE_PX, SIDE_PX, dtype=dtype, device=device)
    images, _ = as_tensors(training_digits())
    return images[torch.arange(batch) % len(images)].to(device, dtype)


def as_tensors(digits: Digits) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels, on the host."""
    return torch.from_numpy(digits.images), torch.from_numpy(digits.labels)


def noisy_batch(
    images: torch.Tensor, num: int, largest: float, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw ``num`` images and add noise of a strength that is drawn too, up to ``largest``.

    Returns:
        The noisy images, and which ones they are.
    """
    chosen = torch.randint(len(images), (num,), generator=generator)
    noise = torch.randn((num, *images.shape[1:]), generator=generator)
    strength = largest * torch.rand((), generator=generator)
    return images[chosen] + strength * noise, chosen
