"""What a clock is worth measuring: the regret that is to be expected of the choice after it.

Curves of power and time that an application may have are drawn. If one of them is true and a clock
is measured on it, curves that are far from the reading become unlikely; the clock of the least
expected cost over all of them is chosen then, and its regret is told by the curve that is true.
Its mean over all curves is least for the clock to measure (preposterior analysis: Raiffa and
Schlaifer 1961). Beside a measured clock a reading tells little but its scatter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.power_models.runs import Array

_LAW_ERROR = 0.015
"""Relative error of a law at a single clock."""
_TILT = 0.1
"""Standard deviation of the slope in the log of the clock ratio that a law lacks."""
_STEP = 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Curves that power or time of an application may have.

    Attributes:
        logs: Logarithm of each curve at each clock; shape ``(curves, clocks)``.
        reading_error: Relative standard deviation of a reading from its curve: its own scatter and
            that of the reading at the profile, and what the law lacks.
    """

    logs: Array
    reading_error: float


def drawn_from(
    law: Callable[[Array], Array],
    num_parameters: int,
    log_ratio: Array,
    *,
    num_anchors: int,
    scatter: float,
    num_curves: int,
    seed: int,
) -> Drawn:
    """Draw curves of a law whose parameters and tilt are as its anchors leave them.

    They are drawn as if the law were linear in its parameters (Laplace's approximation), and put
    into the law itself.

    Args:
        law: Logs of its values, by how many standard errors the parameters are moved.
        num_parameters: How many it has.
        log_ratio: Logs of the clock ratios of the curves, and after them those of the anchors.
        num_anchors: How many of them are anchors.
        scatter: Relative scatter of a reading.
        num_curves: How many curves are drawn.
        seed: Of the draws.
    """
    here = law(np.zeros(num_parameters))
    slopes = [(law(_STEP * row) - here) / _STEP for row in np.eye(num_parameters)]
    anchored = np.column_stack([*slopes, _TILT * log_ratio])[len(log_ratio) - num_anchors :]
    error = float(np.hypot(np.sqrt(2.0) * scatter, _LAW_ERROR))
    known = np.eye(num_parameters + 1) + anchored.T @ anchored / error**2
    random = np.random.default_rng(seed).standard_normal((num_curves, num_parameters + 1))
    steps = random @ np.linalg.inv(np.linalg.cholesky(known))
    logs = np.array([law(step[:-1]) + step[-1] * _TILT * log_ratio for step in steps])
    return Drawn(logs=logs[:, : len(log_ratio) - num_anchors], reading_error=error)


def expected_regrets(power: Drawn, time: Drawn, time_exponent: int, *, seed: int = 0) -> Array:
    """Return the expected regret of the choice once each clock was measured; shape ``(clocks,)``.

    Args:
        power: Curves of power.
        time: Curves of time, as many.
        time_exponent: Cost is power times time to this exponent.
        seed: Of the scatter of the readings.
    """
    random = np.random.default_rng(seed)
    cost = power.logs + time_exponent * time.logs
    regret = np.expm1(cost - cost.min(axis=1, keepdims=True))
    found = [
        _expected(regret, [(each.logs[:, clock], each.reading_error) for each in (power, time)], z)
        for clock, z in enumerate(random.standard_normal((cost.shape[1], 2, len(cost))))
    ]
    return np.array(found)


def _expected(regret: Array, readings: Sequence[tuple[Array, float]], scatter: Array) -> float:
    """Return the expected regret after readings of all curves at one clock."""
    off = np.zeros((len(regret), len(regret)))
    for (logs, error), drawn in zip(readings, scatter, strict=True):
        off += ((logs[:, None] - logs[None, :]) / error + drawn[:, None]) ** 2
    likely = np.exp(-0.5 * (off - off.min(axis=1, keepdims=True)))
    chosen = np.argmin((likely / likely.sum(axis=1, keepdims=True)) @ regret, axis=1)
    return float(regret[np.arange(len(regret)), chosen].mean())
