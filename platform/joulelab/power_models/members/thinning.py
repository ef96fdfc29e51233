"""Fewer clocks of each application to learn from: neighbours say the same."""

import numpy as np

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Index


def thinned(queries: Queries, num_clocks: int = 16) -> Index:
    """Return the rows of at most ``num_clocks`` clocks of each profile, evenly over its range."""
    kept = []
    for number in range(len(queries.profiles)):
        rows = np.flatnonzero(queries.profile == number)
        rows = rows[np.argsort(queries.sm_clock_mhz[rows], kind="stable")]
        steps = np.linspace(0, len(rows) - 1, min(len(rows), num_clocks)).round()
        kept.append(rows[steps.astype(np.intp)])
    return np.concatenate(kept)
