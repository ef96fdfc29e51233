"""What this process computes: on how many threads, how quietly, and until its GPUs are done."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra use one thread, also as a decorator.

    Matrices of searches and power models have some hundred rows: with two threads they take twice
    the wall time and four to seven times the processor's, which the measuring of others needs.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Let the logger of a library or a module tell errors alone for a ``with`` block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


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
