"""What kernels are priced at: the contract, and static power beside it.

Bring what parts were priced at and what the meter read together, each by how sure it is.

Prices ``x >= 0`` (joules of a launch, watts of a kind of kernel, static watts) have a prior from
replays or from the estimator. A run's energy is linear in them. The most likely prices solve a
non-negative least-squares problem (Lawson and Hanson, "Solving Least Squares Problems", 1974). The
covariance is that of the linear Gaussian model. A run that contradicts its priors is not used: its
difference stays as what is not explained.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, solve_triangular  # type: ignore[import-untyped]
from scipy.optimize import nnls  # type: ignore[import-untyped]
from scipy.sparse import csr_array  # type: ignore[import-untyped]

from joulelab.attribution.profile import PhaseProfile
from joulelab.core.measurement import Measurement
from joulelab.errors import ConfigError

Array = NDArray[np.float64]

WAITS, WAITS_U = 0.6, 0.4
"""Share of its power alone that a kernel has while it waits, and how far that may be off: for a
cold cache, or, in a sum, for other ranks."""
CONTRADICTION = 3.0
"""Standard deviations from which meter and priced parts contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Prices and how sure they are."""

    prices: Array  # shape (k,)
    covariance: Array  # shape (k, k)

    def of(self, weights: Array) -> tuple[float, float]:
        """Return the energy of a part with ``weights`` ``(k,)`` of the prices, and its u."""
        variance = float(weights @ self.covariance @ weights)
        return float(weights @ self.prices), float(np.sqrt(max(variance, 0.0)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A metered run."""

    weights: Array  # how much of each price it holds, shape (k,)
    energy_j: float  # what the meter read
    energy_u_j: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconciled:
    """What came of it."""

    solution: Solution  # prices after the runs were used
    # For each run, standard deviations between the meter and the priced parts.
    deviations: tuple[float, ...]
    used: tuple[bool, ...]


def reconcile(prior: Solution, runs: tuple[Run, ...]) -> Reconciled:
    """Return the most likely prices given a prior and metered runs.

    Raises ConfigError if shapes do not fit, or an uncertainty is not positive.
    """
    for run in runs:
        if run.weights.shape != prior.prices.shape or not run.energy_u_j > 0:
            raise ConfigError(
                f"A run needs {prior.prices.size} weights and a positive uncertainty, got "
                f"{run.weights.shape} and {run.energy_u_j}."
            )
    deviations = tuple(_deviation(prior, run) for run in runs)
    used = tuple(abs(deviation) <= CONTRADICTION for deviation in deviations)
    agreeing = [run for run, is_used in zip(runs, used, strict=True) if is_used]
    return Reconciled(
        solution=_solve(prior, agreeing) if agreeing else prior,
        deviations=deviations,
        used=used,
    )


def _deviation(prior: Solution, run: Run) -> float:
    parts_j, parts_u_j = prior.of(run.weights)
    return (run.energy_j - parts_j) / float(np.hypot(parts_u_j, run.energy_u_j))


def _solve(prior: Solution, runs: list[Run]) -> Solution:
    """Stack the whitened prior and the runs; scaled, so that joules and watts weigh alike."""
    scale = np.sqrt(np.diag(prior.covariance))
    root = cholesky(prior.covariance / np.outer(scale, scale), lower=True)
    whitened = solve_triangular(root, np.eye(len(scale)), lower=True)
    rows = np.array([run.weights * scale / run.energy_u_j for run in runs])
    metered = [run.energy_j / run.energy_u_j for run in runs]
    system = np.vstack([whitened, rows])
    found, _ = nnls(system, np.r_[whitened @ (prior.prices / scale), metered])
    inverse = cho_solve(cho_factor(system.T @ system), np.eye(len(scale)))
    return Solution(prices=found * scale, covariance=inverse * np.outer(scale, scale))


Method = Literal["replay", "classes"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """Prior prices, and which calls hold how much of which."""

    names: tuple[str, ...]  # what is priced: a distinct kernel, a kind of kernel; shape (k,)
    # Prices and their covariance: joules of a launch above static, or watts of a kind.
    prior: Solution
    # For each phase, how much of each price each call holds; shape (calls, k).
    holds: Mapping[str, csr_array]
    # Places of prices that were not measured, but taken from their like.
    supposed: frozenset[int] = frozenset()

    def with_static(self, static_w: float, static_u_w: float) -> Solution:
        """Return all prices, that of a second of static power last."""
        return Solution(
            prices=np.r_[self.prior.prices, static_w],
            covariance=block_diag(self.prior.covariance, static_u_w**2),
        )

    def weights(self, profile: PhaseProfile, groups: Sequence[Sequence[int]]) -> Array:
        """Return how much of each price the calls of each group hold, their time on it last.

        Args:
            profile: The phase that the calls are of.
            groups: Places of the calls of each group.

        Returns:
            Weights, of shape (groups, k + 1); the last are seconds on the device.
        """
        ends = np.cumsum([0, *map(len, groups)])
        places = [place for group in groups for place in group]
        shape = (len(groups), len(profile.calls))
        held = csr_array((np.ones(len(places)), places, ends), shape) @ self.holds[profile.phase]
        device_s = [sum(profile.calls[place].device_s for place in group) for group in groups]
        return np.column_stack([held.toarray(), device_s])

    def is_supposed(self, profile: PhaseProfile, index: int) -> bool:
        """Whether what a call holds was not measured."""
        held = self.holds[profile.phase]
        return int(held.indices[held.indptr[index]]) in self.supposed


def prior_of(prices: Array, each_u: Array, common: float) -> Solution:
    """Return prices with uncertainties of their own, and a relative one that all share."""
    shared = common * prices
    return Solution(prices=prices, covariance=np.diag(each_u**2) + np.outer(shared, shared))


class Pricing(ABC):
    """A way to price kernels."""

    method: Method

    @abstractmethod
    def prices(
        self, profiles: Sequence[PhaseProfile], measured: Mapping[str, Measurement]
    ) -> Prices:
        """Return prices of all calls of ``profiles``.

        Raises MeasurementError if they cannot be priced; says why.
        """
