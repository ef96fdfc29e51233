"""How power scatters around its mean: first-order autoregression of the log-residual."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.power_models.runs import Array, Index
from joulelab.power_models.state import State

_MOST_PERSISTENT = 0.999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fluctuation:
    """An AR(1) process: each residual is ``persistence`` times the last one, and something new.

    Attributes:
        persistence: Correlation of neighbouring steps, 0 to below 1.
        sd: Standard deviation of the log of power in each phase, and last over all phases.
    """

    persistence: float
    sd: Array

    @classmethod
    def of(
        cls, residuals: Sequence[Array], phases: Sequence[Index], num_phases: int
    ) -> "Fluctuation":
        """Learn from log-residuals and numbers of phases, one array per trace."""
        moved = [each - each.mean() for each in residuals if np.ptp(each) > 1e-9]
        products = sum(float(each[1:] @ each[:-1]) for each in moved)
        squares = sum(float(each[:-1] @ each[:-1]) for each in moved)
        value = np.concatenate(residuals)
        phase = np.concatenate(phases)
        overall = float(np.sqrt(np.mean(value**2)))
        sd = [
            float(np.sqrt(np.mean(value[phase == i] ** 2))) if (phase == i).any() else overall
            for i in range(num_phases)
        ]
        persistence = products / squares if squares > 0 else 0.0
        return cls(
            persistence=float(np.clip(persistence, 0.0, _MOST_PERSISTENT)),
            sd=np.array([*sd, overall]),
        )

    def sample(self, phases: Index, random: np.random.Generator) -> Array:
        """Draw log-residuals for steps in these phases (-1: unknown), shape ``(n,)``."""
        drawn = random.standard_normal(len(phases))
        fresh = np.sqrt(1.0 - self.persistence**2)
        last = drawn[0]
        for step in range(1, len(drawn)):
            last = self.persistence * last + fresh * drawn[step]
            drawn[step] = last
        return np.asarray(drawn * self.sd[phases])

    def state(self) -> State:
        """Return it as a state."""
        return State(values={"persistence": self.persistence}, arrays={"sd": self.sd})

    @classmethod
    def of_state(cls, state: State) -> "Fluctuation":
        """Return what :meth:`state` wrote."""
        return cls(persistence=state.values["persistence"], sd=state.arrays["sd"])
