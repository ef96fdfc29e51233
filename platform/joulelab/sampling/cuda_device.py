"""Whose descendant a process is, and on which of its GPUs PyTorch computes, where it is in use."""

import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from importlib.util import find_spec

from joulelab.errors import DeviceNotFoundError


@contextmanager
def computing_on(uuid: str) -> Generator[None]:
    """Have PyTorch put work on the GPU ``uuid`` by default within a ``with`` block.

    Without PyTorch, or for a GPU that is none (a simulated one), nothing is done. PyTorch is
    imported for it: who imports it within the block would find the process's first GPU. Raises
    DeviceNotFoundError if PyTorch sees GPUs, and this is none of them.
    """
    if not uuid.startswith("GPU-") or find_spec("torch") is None:
        yield
        return
    import torch

    if not torch.cuda.is_available():
        yield
        return
    with torch.cuda.device(_index_of(uuid)):
        yield


def current_uuid() -> str | None:
    """Return the GPU that PyTorch puts work on by default; ``None`` before it is in use."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    bare = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    return f"GPU-{bare.removeprefix('GPU-')}"


def uses(uuid: str) -> bool | None:
    """Return whether PyTorch of this process works on a GPU; ``None`` if it cannot tell.

    A context alone does not say so where PyTorch has memory on another GPU, and that there is none
    does not say what another library or a process of the program's own does.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    index = _index_of(uuid)
    held_b = [torch.cuda.memory_reserved(each) for each in range(torch.cuda.device_count())]
    if any(held_b):
        return bool(held_b[index])
    return True if torch._C._cuda_hasPrimaryContext(index) else None  # noqa: SLF001 - no public way


def seen_uuids() -> list[str]:
    """Return the GPUs that PyTorch sees, in CUDA's order."""
    import torch

    there = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [str(getattr(each, "uuid", "a GPU without UUID")) for each in there]


def is_same(uuid: str, other: str) -> bool:
    """Whether both name one GPU; PyTorch leaves the beginning out."""
    return uuid.removeprefix("GPU-").lower() == other.removeprefix("GPU-").lower()


def _index_of(uuid: str) -> int:
    seen = seen_uuids()
    for index, each in enumerate(seen):
        if is_same(each, uuid):
            return index
    raise DeviceNotFoundError(
        f"Programs of this process must run on {uuid}, but PyTorch sees {', '.join(seen)} alone; "
        "see CUDA_VISIBLE_DEVICES."
    )


def descends(pid: int, roots: Collection[int]) -> bool:
    """Whether a process is one of ``roots``, or runs on behalf of one; it must run to be asked."""
    import psutil

    try:
        return pid in roots or any(each.pid in roots for each in psutil.Process(pid).parents())
    except psutil.Error:
        return False
