"""How many threads compute what a search believes and a power model learns."""

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
