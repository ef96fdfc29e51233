"""Names that a program gives to parts of itself: ``with joulelab.region("attention"): ...``."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from joulelab.errors import ConfigError

KV_CACHE = "KV cache"
"""Region of what writes keys and values into a cache."""

_MARK = "#"
_regions: ContextVar[tuple[str, ...]] = ContextVar("joulelab_regions", default=())


@contextmanager
def region(name: str) -> Generator[None]:
    """Name the work of a ``with`` block; attribution shows it as a component of its own.

    Regions may nest: the innermost counts. Outside of an attribution one costs a microsecond.

    Args:
        name: What the work is, e.g. ``"attention"``.

    Raises:
        ConfigError: If the name is empty or has a ``#``.
    """
    if not name or _MARK in name:
        raise ConfigError(f"A region's name must not be empty or have a {_MARK}, got {name!r}.")
    token = _regions.set((*_regions.get(), name))
    try:
        yield
    finally:
        _regions.reset(token)


def within_region(path: str) -> str:
    """Return the path of a module with the region around the present call, if there is one."""
    regions = _regions.get()
    return f"{path}{_MARK}{regions[-1]}" if regions else path


def region_of(path: str) -> str:
    """Return the region in a path of :func:`within_region`; empty if there is none."""
    return path.partition(_MARK)[2]
