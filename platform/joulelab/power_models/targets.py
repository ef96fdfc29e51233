"""What a model predicts: power in watts, or time in seconds."""

from typing import Literal, get_args

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Runs

Target = Literal["power_w", "time_s"]
"""What a model predicts; energy, EDP and ED2P follow from one model of each."""


def check_target(target: str) -> None:
    """Check the name of a target.

    Raises:
        ConfigError: If it is not one.
    """
    if target not in get_args(Target):
        raise ConfigError(f"target must be one of {get_args(Target)}, got {target!r}.")


def measured(runs: Runs, target: Target) -> Array:
    """Return the column of ``runs`` that ``target`` names."""
    return runs.power_w if target == "power_w" else runs.time_s


def scale(queries: Queries, target: Target) -> Array:
    """Return what members' values are multiplied by, shape ``(n,)``.

    Members see power in watts, and time relative to that of the profile: the activities of an
    application say how time changes with the clock, and not how much work there is.

    Raises:
        ConfigError: If a profile lacks the time that a prediction of time needs.
    """
    if target == "power_w":
        return np.ones(len(queries))
    times_s = [profile.time_s for profile in queries.profiles]
    for profile, time_s in zip(queries.profiles, times_s, strict=True):
        if time_s is None:
            raise ConfigError(
                f"The profile of {profile.application!r} must say time_s at its clock, to predict "
                "time at others; got None."
            )
    return np.array(times_s, dtype=float)[queries.profile]
