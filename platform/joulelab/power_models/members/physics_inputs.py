"""What the physical laws take from a profile, with what to assume where nothing was read."""

import numpy as np

from joulelab.power_models.features import matrix
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

INPUTS = ("sm_active", "fp_active", "tensor_active", "dram_active", "gr_engine_active")
_ASSUMED = np.array([1.0, 0.2, 0.0, 0.3, 1.0])
"""A device that is kept busy, for tables in which a unit was read nowhere."""


def typical_inputs(queries: Queries) -> Array:
    """Return what to assume for a unit that a profile lacks: its median over the profiles."""
    inputs = profile_inputs(queries, np.full(len(INPUTS), np.nan))
    read = ~np.isnan(inputs).all(axis=0)
    typical = _ASSUMED.copy()
    typical[read] = np.nanmedian(inputs[:, read], axis=0)
    return typical


def profile_inputs(queries: Queries, typical: Array) -> Array:
    """Return the activities of each profile, shape (profiles, inputs)."""
    num_profiles = len(queries.profiles)
    each = Queries(
        profiles=queries.profiles,
        profile=np.arange(num_profiles, dtype=np.intp),
        sm_clock_mhz=np.array([profile.clock_mhz for profile in queries.profiles]),
    )
    values = matrix(each, INPUTS)
    return np.where(np.isnan(values), typical, values)
