"""The processor that PyTorch computes on: which it is, what it can hold and multiply."""

import gc
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import torch

from joulelab.core.cost import Data
from joulelab.core.number_format import FORMATS
from joulelab.errors import ConfigError, DeviceError, DeviceNotFoundError

_NO_GPU = ("", "-1", "NoDevFiles")  # values of CUDA_VISIBLE_DEVICES that hide every GPU


def select_device() -> torch.device:
    """Return the GPU that this process works on, else the CPU.

    Raises DeviceNotFoundError if the process is pinned to a GPU that PyTorch cannot use: the
    program would run on the CPU while the energy of an idle GPU is measured.
    """
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    pinned = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if pinned not in _NO_GPU:
        raise DeviceNotFoundError(
            f"The process is pinned to GPU {pinned}, but PyTorch {torch.__version__} sees no GPU; "
            "install a build of PyTorch for CUDA that this driver supports."
        )
    return torch.device("cpu")


def require_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that ``device`` does not have in hardware, by a ConfigError."""
    known, name = [each for each, form in FORMATS.items() if form.on_cpu], "the CPU"
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        known = [each for each, form in FORMATS.items() if capability >= form.since]
        name = torch.cuda.get_device_name(device)
    if precision not in known:
        raise ConfigError(
            f"precision must be one that {name} has ({', '.join(known)}), got {precision!r}."
        )


def require_memory(needed_b: float, device: torch.device, what: str) -> None:
    """Refuse to allocate more than ``device`` has free for ``what``, by a DeviceError."""
    if device.type != "cuda":
        return
    free_b, total_b = torch.cuda.mem_get_info(device)
    if needed_b > free_b:
        raise DeviceError(
            f"{what} needs {needed_b / 1e9:.1f} GB of device memory, "
            f"{(needed_b - free_b) / 1e9:.1f} GB more than the {free_b / 1e9:.1f} GB that are free "
            f"of {total_b / 1e9:.1f} GB; make it smaller or free the device."
        )


def require_beyond_cache(buffer_b: float, device: torch.device) -> None:
    """Refuse, by a ConfigError, a buffer of less than four times the last-level cache."""
    if device.type != "cuda":
        return
    cache_b = torch.cuda.get_device_properties(device).L2_cache_size
    if buffer_b < 4 * cache_b:
        raise ConfigError(
            f"size_gb must be at least {4 * cache_b / 1e9:.3f}, four times the L2 cache, so that "
            f"the traffic reaches device memory, got {buffer_b / 1e9:.3f}."
        )


def operand(shape: Sequence[int], precision: str, data: Data, device: str) -> torch.Tensor:
    """Return a tensor of normally distributed numbers, or of zeros, on ``device``."""
    dtype = getattr(torch, FORMATS[precision].dtype)
    if data == "zeros":
        return torch.zeros(*shape, dtype=dtype, device=device)
    drawn = torch.bfloat16 if precision == "fp8" else dtype
    return torch.randn(*shape, dtype=drawn, device=device).to(dtype)


@contextmanager
def memory_errors(what: str, needed_b: Callable[[], float] | None = None) -> Generator[None]:
    """Turn PyTorch's running out of memory in a ``with`` block into a :class:`DeviceError`.

    ``what`` ran. ``needed_b`` counts the bytes that it needs at the least; it is asked once they
    are known to be too many, because counting takes seconds.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        needs = "" if needed_b is None else f" It needs {needed_b() / 1e9:.1f} GB at the least."
        raise DeviceError(
            f"{what} ran out of device memory; make it smaller.{needs} {error}"
        ) from error


@contextmanager
def computing(precision: str, *, gradients: bool = False) -> Generator[None]:
    """Multiply and convolve single precision in ``precision`` in a ``with`` block.

    PyTorch by itself lets convolutions and recurrent layers use TF32 where products may not: tf32
    lets all of them use it; fp64 and fp32, none. In a network of 16 bits or fewer, the parts that
    stay in single precision are left to PyTorch. ``gradients`` keeps what a backward pass needs.
    """
    tf32 = precision == "tf32"
    products, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32 or (cudnn and precision not in {"fp64", "fp32"})
    try:
        with torch.enable_grad() if gradients else torch.inference_mode():
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.set_float32_matmul_precision(products)


@contextmanager
def seeded(seed: int, device: torch.device) -> Generator[None]:
    """Draw random numbers from ``seed`` in a ``with`` block; leave the generators as found."""
    gpus: Iterable[torch.device] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


def release_memory() -> None:
    """Give memory that no tensor uses back to the device."""
    gc.collect()
    torch.cuda.empty_cache()


def allocated_b(device: torch.device) -> int:
    """Return how much memory of a GPU tensors of this process take; 0 for the CPU."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


MEMORY_SHORT_SHARE = 0.1


def is_short(device: torch.device) -> bool:
    """Whether less than a tenth of a GPU's memory is free."""
    if device.type != "cuda":
        return False
    free_b, total_b = torch.cuda.mem_get_info(device)
    return free_b < MEMORY_SHORT_SHARE * total_b
