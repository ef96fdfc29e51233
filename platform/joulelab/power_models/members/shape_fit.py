"""Fits the law of power to the runs of one GPU.

What applications share is fitted together with what is peculiar to each, so that a steep one does
not bend the voltage for the others: the power that it would show at the clock of its profile, near
the measured one, and how much steeper than the law it is.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from joulelab.power_models.members.physics_power import (
    DOUBT,
    STEEPNESS_DOUBT,
    PowerShape,
    lossless,
    shape_by_catalogue,
)
from joulelab.power_models.members.power_cap import NEAR
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Index

LEAST_DYNAMIC = 1e-3
ROWS_PER_PROFILE = 3.0
"""What the rows of one profile count for together: they err alike."""
_ROW_ERROR = 0.015
"""Relative error of the law, fitted to single applications; larger ones count as outliers do."""
_POINT_ERROR = 0.005
"""Relative error of one measured point, where a sweep scatters less."""
_STEP = 1e-6
_AT_CAP = 0.5
"""Standard error of the log of a power that a cap kept down."""


def fitted_shape(
    queries: Queries,
    board: Array,
    inputs: Array,
    *,
    scatter: Array,
    cap: float = np.inf,
    first: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Return by how much a GPU's shape departs from the catalogue, and powers at the profiles.

    Args:
        queries: Rows of one GPU, with all profiles.
        board: Power over the board's limit of each row.
        inputs: Activities of each profile.
        scatter: Relative scatter of single rows, by profile.
        cap: Power over the limit at which the board was capped; rows there say that it is no less.
        first: What the departure is expected to be.

    Returns:
        The departure, and for each profile its power over the limit at its own clock were there no
        cap; not a number for those without rows.
    """
    used, which = np.unique(queries.profile, return_inverse=True)
    start = shape_by_catalogue(queries.profiles[used[0]].spec) + first
    ratio, activity, sd = queries.clock_ratio, inputs[queries.profile], scatter[used]
    top = at_profile(queries, board)[used]
    doubt = np.concatenate(
        [
            DOUBT,
            np.where(top >= (1.0 - NEAR) * cap, _AT_CAP, np.maximum(sd, _POINT_ERROR)),
            np.full(len(used), STEEPNESS_DOUBT),
        ]
    )
    weight = np.sqrt(ROWS_PER_PROFILE / np.bincount(which))[which]
    row_error = np.hypot(_ROW_ERROR, sd)[which]

    def errors(moved: Array) -> Array:
        shared, level, own = np.split(moved * doubt, [len(DOUBT), len(DOUBT) + len(used)])
        shape = PowerShape.of(start + shared)
        dynamic = dynamic_of(shape, (top * np.exp(level))[which], activity)
        predicted = shape.power(ratio, activity, dynamic, np.exp(own)[which])
        off = np.log(np.minimum(predicted, cap) / board) / row_error
        return np.asarray(weight * tamed(off))

    fit = least_squares(
        lambda moved: np.concatenate([errors(moved), moved]),
        np.zeros(len(doubt)),
        jac=lambda moved: np.vstack([_slopes(errors, moved, which), np.eye(len(moved))]),
        max_nfev=40,
    )
    found = fit.x * doubt
    tops = np.full(len(queries.profiles), np.nan)
    tops[used] = top * np.exp(found[len(DOUBT) :][: len(used)])
    return np.asarray(first + found[: len(DOUBT)]), tops


def dynamic_of(shape: PowerShape, board: Array, inputs: Array) -> Array:
    """Return the dynamic power that explains board power at the clock of the profile."""
    static = shape.static(np.ones(len(board)), inputs[:, 0])
    return np.maximum(lossless(board) - static, LEAST_DYNAMIC)


def at_profile(queries: Queries, values: Array) -> Array:
    """Return the value of each profile at the query nearest to its own clock."""
    found = np.full(len(queries.profiles), np.nan)
    distance = np.abs(np.log(queries.clock_ratio))
    for number in np.unique(queries.profile):
        rows = np.flatnonzero(queries.profile == number)
        found[number] = values[rows[np.argmin(distance[rows])]]
    return found


def tamed(errors: Array) -> Array:
    """Return errors whose squares grow but linearly beyond 1 (soft L1)."""
    return np.asarray(np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0)))


def _slopes(errors: Callable[[Array], Array], moved: Array, which: Index) -> Array:
    """Return the derivatives of ``errors`` by each parameter.

    What is a profile's own moves its rows alone, so that those of all profiles are tried at once.

    Args:
        errors: Of the rows, by the parameters: shared ones, one of each profile, another of each.
        moved: Where.
        which: The profile of each row, counted from 0.
    """
    here, rows = errors(moved), np.arange(len(which))
    found = np.zeros((len(which), len(moved)))
    for column in range(len(DOUBT)):
        found[:, column] = errors(moved + _STEP * np.eye(len(moved))[column]) - here
    num_profiles = int(which.max()) + 1
    for first in (len(DOUBT), len(DOUBT) + num_profiles):
        step = np.zeros(len(moved))
        step[first : first + num_profiles] = _STEP
        found[rows, first + which] = errors(moved + step) - here
    return found / _STEP
