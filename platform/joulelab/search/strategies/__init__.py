"""How to choose what is measured next."""

from joulelab.registry import Registry
from joulelab.search.base import Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "search strategy",
    {
        "front-guided": "joulelab.search.strategies.front_guided:FrontGuided",
        "grid": "joulelab.search.strategies.grid:Grid",
        "model-guided": "joulelab.search.strategies.model_guided:ModelGuided",
        "random": "joulelab.search.strategies.random:Random",
        "ridge": "joulelab.search.strategies.ridge:Ridge",
    },
)
"""Each is made of a :class:`~joulelab.search.evidence.Problem` and a ``seed``."""
