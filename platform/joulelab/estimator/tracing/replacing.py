"""Replace a library's function for the length of a trace."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def replaced(module: object, name: str, replacement: object) -> Generator[None]:
    """Let ``name`` of ``module`` be ``replacement`` in a ``with`` block."""
    original = getattr(module, name)
    setattr(module, name, replacement)
    try:
        yield
    finally:
        setattr(module, name, original)
