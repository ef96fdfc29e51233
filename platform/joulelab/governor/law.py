"""What time and power of a phase may be at clocks that were not tried yet.

Many curves are drawn by the law of ``core/power_law.py`` as the counters at the driver's own clock
leave them open; their mean and covariance over the clocks are a Gaussian prior of which each
measured clock leaves less (Gaussian conditioning, as an ensemble Kalman filter does it: Evensen,
"The Ensemble Kalman Filter", Ocean Dynamics 53, 2003). What the law misses is a smooth term of 1 %.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulelab.core import power_law
from joulelab.hardware import GpuSpec

Array = NDArray[np.float64]

_NUM_DRAWS = 400
_MISSED, _MISSED_LENGTH = 0.01, 0.15
"""What the law misses of a logarithm, and over how much of a logarithm of the clock alike."""
_NUGGET = 1e-3
_FULL_MEMORY, _MOST_MEMORY = 0.9, 0.97
"""Memory activity at which memory alone bounds; measured activities end at about 0.9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFigures:
    """What is expected of a kind of board; uncertainties are in the draws."""

    constant_w: float | None  # power that no clock changes; None if unknown
    knee_mhz: float  # clock below which memory is starved
    ridge_mhz: float  # clock up to which the voltage is at its least
    slope_per_ghz: float  # how the voltage over its least grows from there
    curvature_per_ghz2: float
    # Standard deviations of logarithms: of constant power, knee, ridge and voltage.
    doubt: tuple[float, float, float, float] = (0.2, 0.15, 0.06, 0.25)

    @classmethod
    def of(cls, spec: GpuSpec | None, top_mhz: float) -> "BoardFigures":
        """Return the catalogue's figures, or what its GPUs scatter about for one that it lacks."""
        if spec is None:
            span_ghz = 0.32 * top_mhz / 1000
            return cls(
                constant_w=None,
                knee_mhz=0.6 * top_mhz,
                ridge_mhz=0.68 * top_mhz,
                slope_per_ghz=0.35 / span_ghz,
                curvature_per_ghz2=0.0,
                doubt=(0.4, 0.25, 0.2, 0.9),
            )
        return cls(
            constant_w=spec.power.constant_w,
            knee_mhz=spec.timing.memory_knee_mhz,
            ridge_mhz=spec.voltage.ridge_mhz,
            slope_per_ghz=spec.voltage.slope_per_ghz,
            curvature_per_ghz2=spec.voltage.curvature_per_ghz2,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What is known of a phase at the driver's own clock."""

    sm_clock_mhz: float
    power_w: float
    engine_active: float  # share of the time in which a kernel ran
    dram_active: float | None  # share of the memory's cycles that moved data; None if unread


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """Logarithms of time over that of the driver's clock, then of power in watts."""

    mean: Array  # shape (2 n,) for n clocks
    covariance: Array  # shape (2 n, 2 n)


def draw_prior(figures: BoardFigures, counters: Counters, clocks_mhz: Array) -> Prior:
    """Return what the law says of clocks, of which the first is the driver's own."""
    time, power_w = _curves(figures, counters, clocks_mhz)
    logs = np.hstack([np.log(time), np.log(power_w)])
    missed = _missed(clocks_mhz)
    covariance = np.cov(logs, rowvar=False)
    covariance += np.kron(np.eye(2), missed)
    return Prior(mean=logs.mean(axis=0), covariance=covariance)


def conditioned(prior: Prior, at: NDArray[np.intp], logs: Array, u: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of all logarithms, given some.

    ``logs`` with standard uncertainties ``u`` were found ``at`` positions, of shape ``(m,)`` each.
    """
    across = prior.covariance[:, at]
    gain = np.linalg.solve(across[at] + np.diag(u**2), across.T).T
    mean = prior.mean + gain @ (logs - prior.mean[at])
    variance = np.diag(prior.covariance) - np.einsum("ij,ij->i", gain, across)
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _curves(figures: BoardFigures, counters: Counters, clocks_mhz: Array) -> tuple[Array, Array]:
    """Return draws of relative time and of power in watts; shape ``(draws, n)`` each."""
    random = np.random.default_rng(0)  # the same draws for all, so that answers do not scatter
    normal = random.standard_normal((10, _NUM_DRAWS, 1))
    ratio = np.broadcast_to(clocks_mhz / clocks_mhz[0], (_NUM_DRAWS, len(clocks_mhz)))
    engine = np.clip(counters.engine_active, 0.02, 0.98)
    memory = _memory_share(counters, engine)
    parameters = np.hstack(
        [
            np.log(engine / (1 - engine)) + 0.7 * normal[0],
            np.log(memory / (1 - memory**4) ** 0.25) + 0.5 * normal[1],
        ]
    )
    constant_doubt, knee_doubt = figures.doubt[:2]
    knee = figures.knee_mhz / clocks_mhz[0] * np.exp(knee_doubt * normal[2])
    time = _relative_time(ratio, parameters, knee)
    voltage = _voltage(figures, clocks_mhz, normal[3:6])
    constant = figures.constant_w or 0.35 * counters.power_w
    constant_w = np.minimum(constant * np.exp(constant_doubt * normal[6]), 0.9 * counters.power_w)
    shares = 1 / (1 + np.exp(-normal[7:9]))  # of the rest: of memory, and of what is clocked
    moving_w = counters.power_w - constant_w
    memory_w = 0.6 * shares[0] * memory * moving_w
    clocked_w, rated_w = (moving_w - memory_w) * shares[1], (moving_w - memory_w) * (1 - shares[1])
    squared = (voltage / voltage[:, :1]) ** 2
    power_w = power_law.board_w(
        constant_w, squared, clocked_w * ratio + rated_w / time, memory_w / time
    )
    return time, np.asarray(power_w)


def _memory_share(counters: Counters, engine: float) -> float:
    """Return time in the memory over time at work."""
    if counters.dram_active is None:
        return 0.5
    return float(np.clip(counters.dram_active / engine / _FULL_MEMORY, 0.02, _MOST_MEMORY))


def _relative_time(ratio: Array, parameters: Array, knee: Array) -> Array:
    working = 1.0 / (1.0 + np.exp(-parameters[:, :1]))
    memory = np.exp(parameters[:, 1:2])
    at_work = power_law.roofline(ratio, memory, knee) / power_law.roofline(1.0, memory, knee)
    return np.asarray(1.0 - working + working * at_work)


def _voltage(figures: BoardFigures, clocks_mhz: Array, normal: Array) -> Array:
    _, _, ridge_doubt, gain_doubt = figures.doubt
    ridge_mhz = figures.ridge_mhz * np.exp(ridge_doubt * normal[0])
    above_ghz = power_law.height(
        np.broadcast_to(clocks_mhz, (_NUM_DRAWS, len(clocks_mhz))), ridge_mhz, 1000.0
    )
    gain = np.exp(gain_doubt * normal[1])
    return np.asarray(
        power_law.voltage(
            above_ghz, gain * figures.slope_per_ghz, gain * figures.curvature_per_ghz2
        )
    )


def _missed(clocks_mhz: Array) -> Array:
    """Return the covariance of what the law misses; nothing is missed at the driver's clock."""
    logs = np.log(clocks_mhz)
    apart = logs[:, None] - logs[None, :]
    alike = np.exp(-0.5 * (apart / _MISSED_LENGTH) ** 2)
    far = 1.0 - alike[0]
    return np.asarray(_MISSED**2 * alike * np.outer(far, far) + _NUGGET**2 * np.eye(len(logs)))
