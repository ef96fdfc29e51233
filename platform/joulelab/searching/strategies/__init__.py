"""How to choose what is measured next."""

from joulelab.registry import Registry
from joulelab.searching.base import Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "search strategy",
    {
        "front-guided": "joulelab.searching.strategies.front_guided:FrontGuided",
        "grid": "joulelab.searching.strategies.listed:Grid",
        "model-guided": "joulelab.searching.strategies.model_guided:ModelGuided",
        "random": "joulelab.searching.strategies.listed:Random",
        "ridge": "joulelab.searching.strategies.listed:Ridge",
    },
    group="joulelab.strategies",
    base=Strategy,
)
"""Each is made of a :class:`~joulelab.searching.evidence.Problem` and a ``seed``."""
