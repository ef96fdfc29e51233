"""What kernels are priced at: the contract, and static power beside it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag  # type: ignore[import-untyped]
from scipy.sparse import csr_array  # type: ignore[import-untyped]

from joulelab.attribution.profile import PhaseProfile
from joulelab.attribution.reconcile import Solution
from joulelab.core.measurement import Measurement

Array = NDArray[np.float64]
Method = Literal["replay", "classes"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """Prior prices, and which calls hold how much of which.

    Attributes:
        names: What is priced: a distinct kernel, a kind of kernel; shape ``(k,)``.
        prior: Prices and their covariance: joules of a launch above static, or watts of a kind.
        holds: For each phase, how much of each price each call holds; shape ``(calls, k)``.
        supposed: Places of prices that were not measured, but taken from their like.
    """

    names: tuple[str, ...]
    prior: Solution
    holds: Mapping[str, csr_array]
    supposed: frozenset[int] = frozenset()

    def with_static(self, static_w: float, static_u_w: float) -> Solution:
        """Return all prices, that of a second of static power last."""
        return Solution(
            prices=np.r_[self.prior.prices, static_w],
            covariance=block_diag(self.prior.covariance, static_u_w**2),
        )

    def weights(self, profile: PhaseProfile, chosen: Sequence[int]) -> Array:
        """Return how much of each price the chosen calls hold, their time on the device last."""
        held = np.asarray(self.holds[profile.phase][np.asarray(chosen, dtype=np.intp)].sum(axis=0))
        device_s = sum(profile.calls[index].device_s for index in chosen)
        return np.asarray(np.r_[held, device_s], dtype=np.float64)

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

        Args:
            profiles: The phases.
            measured: What the meter read of them, by phase.

        Raises:
            MeasurementError: If they cannot be priced; says why.
        """
