"""Wait for the program's own work on its GPUs."""

import sys


def synchronise() -> None:
    """Wait until PyTorch's work on the GPUs is done, if this process has any.

    A process that has not imported PyTorch, or not begun to use CUDA, has nothing to wait for; nor
    has a GPU on which it has no context, and which waiting would give one.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    for index in range(torch.cuda.device_count()):
        if torch._C._cuda_hasPrimaryContext(index):  # noqa: SLF001 - there is no public way
            torch.cuda.synchronize(index)
