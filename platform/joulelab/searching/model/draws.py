"""What time and power may be, drawn from what is believed and not made linear.

The covariance of a belief is that of the law made linear at its most likely parameters. Parts of
power are known by their sum alone, so that logarithms of each may be far off: a draw of them has a
sum that is wrong by ten times as much as was measured. So each draw is led back, along what was
open before, to readings that the linear law gives it (Gauss-Newton steps by draw, as in randomized
maximum likelihood; Oliver, Reynolds, Liu, "Inverse Theory for Petroleum Reservoir Characterization
and History Matching", Cambridge 2008).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulelab.searching.model.law import Rows, log_time_power, slopes

Array = NDArray[np.float64]

_NUM_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellBelief:
    """The parameters of a cell, and those of the board.

    ``likeliest`` has shape ``(13,)``; ``prior`` is their covariance before anything was measured,
    and ``covariance`` what is left of it, ``(13, 13)`` each. ``variance`` is that of a logarithm of
    time or power around the law.
    """

    likeliest: Array
    prior: Array
    covariance: Array
    measured: Rows
    variance: float


def drawn(belief: CellBelief, rows: Rows, normals: Array) -> Array:
    """Return what the law says of ``rows`` of a cell, on the first board, under draws.

    ``normals`` are standard normal, of shape ``(m, 13)``.

    Returns:
        Logarithms of time and power; shape ``(m, n, 2)``.
    """
    variance, directions = np.linalg.eigh(belief.covariance)
    moved = normals @ (directions * np.sqrt(np.maximum(variance, 0.0))).T
    return _logs(_as_measured(belief, moved), rows)


def _as_measured(belief: CellBelief, moved: Array) -> Array:
    """Return parameters, moved from the likeliest, that keep to what was measured of the cell."""
    parameters, at = belief.likeliest + moved, belief.measured
    if not len(at.ratio):
        return np.asarray(parameters)
    likeliest = belief.likeliest[None]
    slope = _slopes(likeliest, at)[0]
    wanted = _logs(likeliest, at).ravel() + moved @ slope.T
    own = belief.variance * np.eye(len(slope))
    for _ in range(_NUM_STEPS):
        missed = wanted - _logs(parameters, at).reshape(wanted.shape)
        slope = _slopes(parameters, at)
        across = belief.prior @ slope.transpose(0, 2, 1)
        weights = np.linalg.solve(slope @ across + own, missed[:, :, None])
        parameters = parameters + (across @ weights)[:, :, 0]
    return np.asarray(parameters)


def _logs(parameters: Array, rows: Rows) -> Array:
    """Return logarithms of time and power by draw, shape ``(m, n, 2)``."""
    m, n = len(parameters), len(rows.ratio)
    at = (np.tile(each, m) for each in (rows.ratio, rows.limit_w, rows.asked_w))
    return log_time_power(np.repeat(parameters, n, axis=0), *at).reshape(m, n, 2)


def _slopes(parameters: Array, rows: Rows) -> Array:
    """Return their derivatives, shape ``(m, 2 n, 13)``."""
    m, n = len(parameters), len(rows.ratio)
    at = (np.tile(each, m) for each in (rows.ratio, rows.limit_w, rows.asked_w))
    return slopes(np.repeat(parameters, n, axis=0), *at).reshape(m, 2 * n, -1)
