"""Power caps that runs show: values at a board's limit say no more than that it was reached."""

from collections.abc import Mapping

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Flags, Names

NEAR = 0.03
"""How far (relative) from its limit a capped board is kept."""
_LEAST_ROWS = 3


def limits_w(queries: Queries) -> Array:
    """Return the power limit of each query, the board's default where none is known."""
    return queries.of_profiles(
        [p.power_limit_w or p.spec.default_power_limit_w for p in queries.profiles]
    )


def caps_seen(queries: Queries, power_w: Array) -> dict[str, float]:
    """Return the power at which GPUs were capped, by label; without those that were not.

    A GPU was capped if several runs drew its limit and none drew more.
    """
    found = {}
    label = _labels(queries)
    share = power_w / limits_w(queries)
    for gpu in dict.fromkeys(label.tolist()):
        near = (label == gpu) & (np.abs(share - 1.0) <= NEAR)
        if near.sum() >= _LEAST_ROWS and share[label == gpu].max() <= 1.0 + NEAR:
            found[gpu] = float(np.median(power_w[near]))
    return found


def capped(queries: Queries, power_w: Array, caps_w: Mapping[str, float]) -> Flags:
    """Return which values are those of a cap."""
    return np.asarray(power_w >= (1.0 - NEAR) * _cap_w(queries, caps_w))


def clamped(queries: Queries, power_w: Array, caps_w: Mapping[str, float]) -> Array:
    """Return ``power_w``, at most the cap of each query's GPU."""
    return np.minimum(power_w, _cap_w(queries, caps_w))


def _cap_w(queries: Queries, caps_w: Mapping[str, float]) -> Array:
    return queries.of_profiles([caps_w.get(p.gpu, np.inf) for p in queries.profiles])


def _labels(queries: Queries) -> Names:
    return np.array([profile.gpu for profile in queries.profiles])[queries.profile]
