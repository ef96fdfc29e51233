"""The parts of a state machine x AR(1): a power level for each phase, a lag, and scatter.

The phases are the states; the schedule says which one holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear  # type: ignore[import-untyped]
from scipy.signal import lfilter  # type: ignore[import-untyped]

from joulelab.power_models.runs import Array, Index
from joulelab.power_models.traces.load_trace import Encoding, LoadTrace, Schedule

_PENALTIES = tuple(10.0**exponent for exponent in np.arange(-4.0, 1.5, 0.5))
_SHARED_PENALTY = 0.01
"""Of what all phases share, relative to that of what is peculiar to one."""
_LAGS_S = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)
_LEAST_SHARE = 0.2
"""A level is at least this share of the lowest power that was trained on."""
_MOST_PERSISTENT = 0.999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Power of phases, linear in what :meth:`Encoding.physical` returns."""

    encoding: Encoding  # how schedules are read
    scale: Array  # largest value of each physical column in training; shape (k,)
    # In watts, for a column of ones and the scaled physical ones: first what all phases share, then
    # what each adds; shape ((phases + 1) (k + 1),).
    coefficients: Array
    lag_s: float  # time constant with which power approaches its level
    lowest_w: float  # lowest power in training

    @classmethod
    def of(cls, traces: Sequence[LoadTrace], encoding: Encoding) -> "Levels":
        """Learn from traces, all with one weight."""
        physical = np.concatenate([encoding.physical(each.schedule) for each in traces])
        scale = np.maximum(np.abs(physical).max(axis=0), 1e-9)
        designs = [_design(each.schedule, encoding, scale) for each in traces]
        powers_w = [each.power_w for each in traces]
        best = np.inf
        for lag_s in _LAGS_S:
            lagged = [_lagged(design, lag_s, encoding.step_s) for design in designs]
            gram, moment = _equations(lagged, powers_w, len(scale) + 1)
            found = np.linalg.solve(gram, moment)
            error = sum(
                float(np.mean((design @ found / power_w - 1.0) ** 2))
                for design, power_w in zip(lagged, powers_w, strict=True)
            )
            if error < best * (1.0 - 1e-6):
                best, chosen_s, equations = error, lag_s, (gram, moment)
        return cls(
            encoding=encoding,
            scale=scale,
            coefficients=_never_falling(*equations, len(scale) + 1),
            lag_s=chosen_s,
            lowest_w=min(float(power_w.min()) for power_w in powers_w),
        )

    def power_w(self, schedule: Schedule) -> Array:
        """Return the power in each step, shape ``(n,)``; of an unknown phase what all share."""
        design = _design(schedule, self.encoding, self.scale)
        levels_w = np.maximum(design @ self.coefficients, _LEAST_SHARE * self.lowest_w)
        return _lagged(levels_w, self.lag_s, schedule.step_s)


def _design(schedule: Schedule, encoding: Encoding, scale: Array) -> Array:
    """Return columns that all phases share, then those of each phase; an unknown has none."""
    physical = encoding.physical(schedule) / scale
    shared = np.column_stack([np.ones(len(physical)), physical])
    phase = encoding.phase_index(schedule)
    own = [shared * (phase == i)[:, None] for i in range(len(encoding.phases))]
    return np.column_stack([shared, *own])


def _equations(
    designs: Sequence[Array], powers_w: Sequence[Array], num_shared: int
) -> tuple[Array, Array]:
    """Return the normal equations of relative errors, every trace with one weight.

    The penalty in them is the one that predicts the energy of left-out traces best.
    """
    rows = [design / power_w[:, None] for design, power_w in zip(designs, powers_w, strict=True)]
    grams = np.stack([each.T @ each / len(each) for each in rows])
    moments = np.stack([each.mean(axis=0) for each in rows])
    energies = np.stack(
        [design.sum(axis=0) / p.sum() for design, p in zip(designs, powers_w, strict=True)]
    )
    gram, moment = grams.sum(axis=0), moments.sum(axis=0)
    weights = np.where(np.arange(len(gram)) < num_shared, _SHARED_PENALTY, 1.0)
    weights[0] = 1e-6  # what nothing at all draws is free
    unit = np.diag(weights) * float(np.trace(gram)) / len(gram)

    def held_out(penalty: float) -> float:
        left = np.linalg.solve(gram - grams + penalty * unit, (moment - moments)[:, :, None])
        return float(np.abs((energies * left[:, :, 0]).sum(axis=1) - 1.0).sum())

    penalty = min(_PENALTIES, key=held_out) if len(designs) > 2 else _SHARED_PENALTY
    return gram + penalty * unit, moment


def _never_falling(gram: Array, moment: Array, num_shared: int) -> Array:
    """Solve with what phases share at least zero: a busier unit never draws less."""
    factor = np.linalg.cholesky(gram).T
    lowest = np.where(np.arange(len(gram)) < num_shared, 0.0, -np.inf)
    wanted = np.linalg.solve(factor.T, moment)
    return np.asarray(lsq_linear(factor, wanted, (lowest, np.inf)).x)


def _lagged(levels: Array, lag_s: float, step_s: float) -> Array:
    """Let values, shape ``(n, ...)``, approach their levels exponentially, from the first on."""
    if lag_s <= 0:
        return levels
    stay = float(np.exp(-step_s / lag_s))
    start = stay * levels[:1]
    return np.asarray(lfilter([1.0 - stay], [1.0, -stay], levels, axis=0, zi=start)[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fluctuation:
    """An AR(1) process: each residual is ``persistence`` times the last one, and something new."""

    persistence: float  # correlation of neighbouring steps, 0 to below 1
    sd: Array  # standard deviation of the log of power in each phase, and last over all phases

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
