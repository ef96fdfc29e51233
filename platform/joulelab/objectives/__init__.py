"""What to minimise: lower is better, always."""

from joulelab.objectives.base import Objective
from joulelab.registry import Registry

OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    {
        "ed2p": "joulelab.objectives.ed2p:ed2p",
        "edp": "joulelab.objectives.edp:edp",
        "energy": "joulelab.objectives.energy:energy",
        "time": "joulelab.objectives.time:time",
    },
)
