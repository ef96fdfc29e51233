"""Fits of the laws of power and of time.

What applications share is fitted together with what is peculiar to each, so that a steep one does
not bend the voltage for the others: the power that it would show at the clock of its profile, near
the measured one, and how much steeper than the law it is.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.optimize import least_squares, nnls  # type: ignore[import-untyped]

from joulelab.core.power_law import relative_time
from joulelab.power_models.members.physics_laws import (
    SHAPE_DOUBT,
    STEEPNESS_DOUBT,
    TIME_DOUBT,
    PowerShape,
    lossless,
    memory_knee,
    profile_inputs,
    shape_by_catalogue,
    time_parameters,
)
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import NEAR_CAP, Array, Index

LEAST_DYNAMIC = 1e-3
_ROWS_PER_PROFILE = 3.0
"""What the rows of one profile count for together: they err alike."""
_ROW_ERROR = 0.015
"""Relative error of the law, fitted to single applications; larger ones count as outliers do."""
_POINT_ERROR = 0.005
"""Relative error of one measured point, where a sweep scatters less."""
_STEP = 1e-6
_AT_CAP = 0.5
"""Standard error of the log of a power that a cap kept down."""
_OWN_WEIGHTS = 6
"""Profiles on a GPU from which its dynamic power is learned from them alone."""
_TIME_ERROR = 0.05
"""Relative error of the law of time; larger ones count as outliers do."""
_GPU_DOUBT = 1.0
"""Standard error by which applications on one GPU depart together from what activities say of
their time; in tables without activities that is all there is to learn from."""


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
    top = _near_profile(queries, board)[used]
    doubt = np.concatenate(
        [
            SHAPE_DOUBT,
            np.where(top >= (1.0 - NEAR_CAP) * cap, _AT_CAP, np.maximum(sd, _POINT_ERROR)),
            np.full(len(used), STEEPNESS_DOUBT),
        ]
    )
    weight = np.sqrt(_ROWS_PER_PROFILE / np.bincount(which))[which]
    row_error = np.hypot(_ROW_ERROR, sd)[which]

    def errors(moved: Array) -> Array:
        shared, level, own = np.split(
            moved * doubt, [len(SHAPE_DOUBT), len(SHAPE_DOUBT) + len(used)]
        )
        shape = PowerShape.of(start + shared)
        dynamic = dynamic_of(shape, (top * np.exp(level))[which], activity)
        predicted = shape.power(ratio, activity, dynamic, np.exp(own)[which])
        off = np.log(np.minimum(predicted, cap) / board) / row_error
        return np.asarray(weight * _tamed(off))

    fit = least_squares(
        lambda moved: np.concatenate([errors(moved), moved]),
        np.zeros(len(doubt)),
        jac=lambda moved: np.vstack([_slopes(errors, moved, which), np.eye(len(moved))]),
        max_nfev=40,
    )
    found = fit.x * doubt
    tops = np.full(len(queries.profiles), np.nan)
    tops[used] = top * np.exp(found[len(SHAPE_DOUBT) :][: len(used)])
    return np.asarray(first + found[: len(SHAPE_DOUBT)]), tops


def dynamic_of(shape: PowerShape, board: Array, inputs: Array) -> Array:
    """Return the dynamic power that explains board power at the clock of the profile."""
    static = shape.static(np.ones(len(board)), inputs[:, 0])
    return np.maximum(lossless(board) - static, LEAST_DYNAMIC)


def _near_profile(queries: Queries, values: Array) -> Array:
    """Return the value of each profile at the query nearest to its own clock."""
    found = np.full(len(queries.profiles), np.nan)
    distance = np.abs(np.log(queries.clock_ratio))
    for number, rows in queries.by_profile():
        found[number] = values[rows[np.argmin(distance[rows])]]
    return found


def learned_weights(
    queries: Queries, inputs: Array, board: Array, shape_of: Callable[[str, str], PowerShape]
) -> Mapping[str, Array]:
    """Return dynamic power over the power limit per activity, by GPU; ``""`` is for any.

    ``inputs`` are activities of each profile, and ``board`` is power over the board's limit at its
    own clock; ``shape_of`` returns the shape of a GPU, by its label and its key in the catalogue.
    """
    used = np.unique(queries.profile)
    labels = np.array([queries.profiles[i].gpu for i in used])
    dynamic = np.empty(len(used))
    for gpu in np.unique(labels):
        own = used[labels == gpu]
        shape = shape_of(gpu, queries.profiles[own[0]].spec.key)
        dynamic[labels == gpu] = dynamic_of(shape, board[own], inputs[own])
    weights = {"": _weights(inputs[used, :4], dynamic, board[used])}
    for gpu in np.unique(labels):
        own = labels == gpu
        if own.sum() >= _OWN_WEIGHTS:
            weights[str(gpu)] = _weights(inputs[used[own], :4], dynamic[own], board[used[own]])
    return weights


def fitted_time(
    queries: Queries,
    values: Array,
    scatter: Array,
    *,
    gpus: tuple[str, ...],
    known: Array,
    first: int,
    own: Mapping[str, Array],
) -> Array:
    """Return the weights of time, of which those before ``first`` are known, the others near 0.

    ``own`` is by how much calibrated boards depart from the catalogue.

    All values of a profile are over one measured time, whose scatter they have in common: as
    much of their mean error as that may be is taken off.
    """
    inputs = profile_inputs(queries)
    count = np.bincount(queries.profile, minlength=len(scatter))
    weight = np.sqrt(_ROWS_PER_PROFILE / count[queries.profile])
    row_error = np.hypot(_TIME_ERROR, scatter)
    common = 1.0 / (1.0 + row_error**2 / np.maximum(_ROWS_PER_PROFILE * scatter**2, 1e-12))
    of_gpus = np.full(len(known) - len(TIME_DOUBT), _GPU_DOUBT)
    doubt = np.append(TIME_DOUBT, of_gpus)[first:]

    def misfit(moved: Array) -> Array:
        weights = np.append(known[:first], moved * doubt)
        each = time_parameters(weights, gpus, queries, inputs)[queries.profile]
        predicted = relative_time(queries.clock_ratio, each, memory_knee(queries, weights, own))
        errors = np.log(predicted / values)
        mean = np.bincount(queries.profile, errors, len(scatter)) / np.maximum(count, 1)
        left = errors - (common * mean)[queries.profile]
        return np.concatenate([weight * _tamed(left / row_error[queries.profile]), moved])

    found = least_squares(misfit, np.zeros(len(doubt)), max_nfev=60)
    return np.append(known[:first], found.x * doubt)


def _weights(inputs: Array, dynamic: Array, board: Array) -> Array:
    """Fit dynamic power to activities, errors relative to board power, no weight negative."""
    return np.asarray(nnls(inputs / board[:, None], dynamic / board)[0])


def _tamed(errors: Array) -> Array:
    """Return errors whose squares grow but linearly beyond 1 (soft L1)."""
    return np.asarray(np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0)))


def _slopes(errors: Callable[[Array], Array], moved: Array, which: Index) -> Array:
    """Return derivatives of ``errors`` by shared parameters and two of each profile, at a place.

    What is a profile's own moves its rows alone, so that those of all profiles are tried at once.
    ``which`` is the profile of each row, counted from 0.
    """
    here, rows = errors(moved), np.arange(len(which))
    found = np.zeros((len(which), len(moved)))
    for column in range(len(SHAPE_DOUBT)):
        found[:, column] = errors(moved + _STEP * np.eye(len(moved))[column]) - here
    num_profiles = int(which.max()) + 1
    for first in (len(SHAPE_DOUBT), len(SHAPE_DOUBT) + num_profiles):
        step = np.zeros(len(moved))
        step[first : first + num_profiles] = _STEP
        found[rows, first + which] = errors(moved + step) - here
    return found / _STEP
