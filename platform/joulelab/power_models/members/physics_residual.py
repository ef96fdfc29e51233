"""The physical member with a Gaussian process on what it leaves, shrunk where nothing is known."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from typing_extensions import override

from joulelab.power_models.members.physics import PhysicsModel
from joulelab.power_models.members.physics_inputs import profile_inputs
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Flags, Index, Names
from joulelab.power_models.splits import group_folds
from joulelab.power_models.state import State

_ROWS_PER_PROFILE = 8
_INNER_FOLDS = 4
_LENGTHS = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.7])
"""Distances over which residuals are alike: of activities, of the clock ratio's log, and of the log
of dynamic power."""
_NOISE = 0.1
"""Error of a row that its neighbours say nothing of; large, for rows of one profile err alike."""
_SCALES = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Tried standard deviations of the residual. That which helps held-out groups most is taken, and 0,
plain physics, where none does."""


class PhysicsResidualModel(PhysicsModel):
    """Physics times the exponential of a residual that a Gaussian process learned.

    It learns from errors that physics makes for groups it was not fitted to, each anchored at
    its profile, and so corrects the shape over clocks. Far from what was seen it is 0, as on a GPU
    that was not: what the law leaves there is not known.
    """

    name: ClassVar[str] = "physics_residual"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._points = np.zeros((0, len(_LENGTHS)))
        self._pull = np.zeros(0)
        self._sd = 0.0
        self._gpus: tuple[str, ...] = ()

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._points, self._pull = np.zeros((0, len(_LENGTHS))), np.zeros(0)
        chosen = _thinned(queries)
        errors = self._held_out_errors(queries, values, groups)[chosen]
        super().learn(queries, values, groups)
        asked = queries.select(chosen)
        points = self._located(asked, self.solved_by_profile(queries, values))
        known = np.isfinite(errors)
        self._take(points[known], errors[known], groups[chosen][known])
        self._gpus = tuple(sorted({profile.gpu for profile in queries.profiles}))
        return self

    @override
    def law(self, queries: Queries, parameters: Array) -> Array:
        plain = super().law(queries, parameters)
        if not len(self._points):
            return plain
        near = _kernel(self._located(queries, parameters), self._points, self._sd)
        top = Queries(
            profiles=queries.profiles,
            profile=queries.profile,
            sm_clock_mhz=queries.of_profiles([p.clock_mhz for p in queries.profiles]),
        )
        near = near - _kernel(self._located(top, parameters), self._points, self._sd)
        seen = queries.of_profiles([profile.gpu in self._gpus for profile in queries.profiles])
        return np.asarray(plain * np.exp(seen * (near @ self._pull)))

    def solved_by_profile(self, queries: Queries, values: Array) -> Array:
        """Return parameters that meet each profile at the query nearest to its clock."""
        nearest = [
            rows[np.argmin(np.abs(np.log(queries.clock_ratio[rows])))]
            for number in np.unique(queries.profile)
            if len(rows := np.flatnonzero(queries.profile == number))
        ]
        chosen = np.array(nearest, dtype=np.intp)
        return self.solved(queries.select(chosen), values[chosen])

    @override
    def _state(self) -> State:
        known = super()._state()
        residual = {"points": self._points, "pull": self._pull, "sd": np.array(self._sd)}
        values = {**known.values, "gpus": list(self._gpus)}
        return State(values=values, arrays={**known.arrays, **residual})

    @override
    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._points, self._pull = state.arrays["points"], state.arrays["pull"]
        self._sd = float(state.arrays["sd"])
        self._gpus = tuple(state.values["gpus"])

    def _held_out_errors(self, queries: Queries, values: Array, groups: Names) -> Array:
        """Return the logs of measured over predicted of anchored groups that were held out."""
        errors = np.full(len(queries), np.nan)
        if len(np.unique(groups)) < _INNER_FOLDS:
            return errors
        for held_out in group_folds(groups, _INNER_FOLDS, self.seed):
            kept = ~held_out
            plain = PhysicsModel(self.target, seed=self.seed, calibration_folds=0)
            plain.learn(queries.select(kept), values[kept], groups[kept])
            errors[held_out] = plain.anchored_errors(
                queries.select(held_out), values[held_out], (1.0,)
            )
        return errors

    def _located(self, queries: Queries, parameters: Array) -> Array:
        """Return where each query lies, in lengths over which residuals are alike."""
        inputs = profile_inputs(queries, self._typical)[queries.profile]
        level = parameters[queries.profile, 0] if self.target == "power_w" else 0.0 * inputs[:, 0]
        columns = np.column_stack([inputs, np.log(queries.clock_ratio), level])
        return np.asarray(columns / _LENGTHS)

    def _take(self, points: Array, errors: Array, groups: Names) -> None:
        if len(np.unique(groups)) < _INNER_FOLDS:
            return
        folds = group_folds(groups, _INNER_FOLDS, self.seed)
        left = {sd: _left_over(points, errors, folds, sd) for sd in _SCALES}
        self._sd = min(_SCALES, key=lambda sd: left[sd])
        if self._sd > 0.0:
            pull = np.asarray(_regression(self._sd).fit(points, errors).alpha_)
            self._points, self._pull = points, pull


def _regression(sd: float) -> GaussianProcessRegressor:
    kernel = ConstantKernel(sd**2) * RBF(1.0) + WhiteKernel(_NOISE**2)
    return GaussianProcessRegressor(kernel, optimizer=None)


def _left_over(points: Array, errors: Array, folds: Sequence[Flags], sd: float) -> float:
    """Return the mean absolute error that a residual of ``sd`` leaves in groups held out."""
    if sd == 0.0:
        return float(np.abs(errors).mean())
    left = [
        np.abs(errors[out] - _regression(sd).fit(points[~out], errors[~out]).predict(points[out]))
        for out in folds
    ]
    return float(np.concatenate(left).mean())


def _kernel(first: Array, second: Array, sd: float) -> Array:
    kernel = ConstantKernel(sd**2) * RBF(1.0)
    return np.asarray(kernel(first, second))


def _thinned(queries: Queries) -> Index:
    """Return some rows of each profile, spread over its clocks."""
    chosen: list[int] = []
    for number in np.unique(queries.profile):
        rows = np.flatnonzero(queries.profile == number)
        rows = rows[np.argsort(queries.sm_clock_mhz[rows])]
        picks = np.linspace(0, len(rows) - 1, min(_ROWS_PER_PROFILE, len(rows)))
        chosen.extend(rows[np.unique(picks.astype(int))].tolist())
    return np.array(sorted(chosen), dtype=np.intp)
