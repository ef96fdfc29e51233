"""Ray Tune on pinned GPUs: the trainable for a Tuner of one's own, and our searches by Tune."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from joulelab_actors.tune.own import StrategySearcher, measuring

__all__ = ["StrategySearcher", "measuring"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: processes of trials need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.own"), name)
