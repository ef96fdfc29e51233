"""Run-time control of the clock of a running program.

Importing this imports no strategy: each is loaded when it is asked for.
"""

from joulelab.governor.strategy import Strategy
from joulelab.registry import Registry

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy of the governor",
    {
        "fixed": "joulelab.governor.strategies.fixed:Fixed",
        "race-to-idle": "joulelab.governor.strategies.race_to_idle:RaceToIdle",
        "model": "joulelab.governor.strategies.model:Model",
        "bandit": "joulelab.governor.strategies.bandit:Bandit",
        "oracle": "joulelab.governor.strategies.oracle:Oracle",
    },
    group="joulelab.governor_strategies",
    base=Strategy,
)
