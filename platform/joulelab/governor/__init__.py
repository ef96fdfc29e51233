"""Run-time control of the clock of a running program.

Importing this imports no strategy: each is loaded when it is asked for.
"""

from joulelab.governor.strategy import Strategy
from joulelab.registry import Registry

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy of the governor",
    {
        "fixed": "joulelab.governor.strategies:Fixed",
        "race-to-idle": "joulelab.governor.strategies:RaceToIdle",
        "model": "joulelab.governor.strategies:Model",
        "bandit": "joulelab.governor.strategies:Bandit",
        "oracle": "joulelab.governor.strategies:Oracle",
    },
    group="joulelab.governor_strategies",
    base=Strategy,
)
