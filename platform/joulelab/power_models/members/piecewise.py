"""The piecewise law of clock sweeps: linear up to a clock, quadratic beyond it (NHR 'sweet spots').

``P = b1 f + c1`` below ``f_t`` and ``a2 f^2 + b2 f + c2`` above it, joined. There it is fitted to
one program on one GPU; here over the power at the clock of the profile, so that programs share a
shape, and how high a program lies is the mean of their logarithms or told by an anchor.
"""

from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.base import PowerModel
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names
from joulelab.power_models.state import State

_TURNS = np.arange(0.45, 0.95, 0.025)
"""Tried clocks of the turn, over the clock of the profile."""


class PiecewiseModel(PowerModel):
    """One shape over the clock ratio for all applications, blind to what they do."""

    name: ClassVar[str] = "piecewise"

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        logs = np.log(values)
        present = np.unique(queries.profile)
        top = {int(i): _at_top(queries, logs, int(i)) for i in present}
        self._level = float(np.mean(list(top.values())))
        heights = np.array([top[int(i)] for i in queries.profile])
        shape = np.exp(logs - heights)
        fits = [_fitted(queries.clock_ratio, shape, turn) for turn in _TURNS]
        best = int(np.argmin([misfit for misfit, _ in fits]))
        self._turn, self._coefficients = float(_TURNS[best]), fits[best][1]
        self._least = float(shape.min()) / 2.0
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        shape = _columns(queries.clock_ratio, self._turn) @ self._coefficients
        return np.asarray(np.maximum(shape, self._least) * np.exp(self._level))

    @override
    def _state(self) -> State:
        values = {"turn": self._turn, "level": self._level, "least": self._least}
        return State(values=values, arrays={"coefficients": self._coefficients})

    @override
    def _restore(self, state: State) -> None:
        values = state.values
        self._turn, self._level, self._least = values["turn"], values["level"], values["least"]
        self._coefficients = state.arrays["coefficients"]


def _at_top(queries: Queries, logs: Array, profile: int) -> float:
    rows = np.flatnonzero(queries.profile == profile)
    return float(logs[rows[np.argmin(np.abs(queries.clock_ratio[rows] - 1.0))]])


def _columns(ratio: Array, turn: float) -> Array:
    """Return a line, and what bends it beyond the turn: both pieces meet there."""
    beyond = np.maximum(0.0, ratio - turn)
    return np.column_stack([np.ones_like(ratio), ratio, beyond, beyond**2])


def _fitted(ratio: Array, shape: Array, turn: float) -> tuple[float, Array]:
    columns = _columns(ratio, turn) / shape[:, None]
    found = np.linalg.lstsq(columns, np.ones(len(shape)), rcond=None)[0]
    return float(np.sum((columns @ found - 1.0) ** 2)), np.asarray(found)
