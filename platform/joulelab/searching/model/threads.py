"""How many threads compute what a search believes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra use one thread, also as a decorator.

    Matrices of a search have some hundred rows: with two threads a suggestion takes twice the wall
    time and four times the processor's, which the measuring of others needs.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
