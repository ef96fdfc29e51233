"""The physical member: laws of power and time, with constants fitted near the catalogue's."""

import copy
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import least_squares, nnls  # type: ignore[import-untyped]
from typing_extensions import override

from joulelab.hardware import GPUS
from joulelab.power_models.members import physics_time
from joulelab.power_models.members.anchored import AnchoredModel
from joulelab.power_models.members.physics_inputs import profile_inputs, typical_inputs
from joulelab.power_models.members.physics_power import (
    DOUBT,
    PowerShape,
    lossless,
    shape_by_catalogue,
)
from joulelab.power_models.members.thinning import thinned
from joulelab.power_models.queries import Profile, Queries, queries_of
from joulelab.power_models.runs import Array, Index, Names, Runs
from joulelab.power_models.state import State
from joulelab.power_models.targets import measured, scale

_ROW_ERROR = 0.03
"""Relative error of the laws; larger ones count as outliers do."""
_ROWS_PER_PROFILE = 3.0
"""What the rows of one profile count for together: they err alike."""
_LEAST_DYNAMIC = 1e-3
_FIRST_DOUBT = np.array([2.0, 2.0])
_DOUBTS = (0.02, 2.0)
_GPU_DOUBT = 1.0
"""Standard error by which applications on one GPU depart together from what activities say of
their time; in tables without activities that is all there is to learn from."""
_OWN_WEIGHTS = 6
"""Profiles on a GPU from which its dynamic power is learned from them alone."""


class PhysicsModel(AnchoredModel):
    """Laws of physics, with the shape shared by applications and the level told by activities.

    Dynamic power is a sum over unit activities with weights of at least 0, so that nothing is
    drawn without work; constants of a GPU start from the catalogue and move as far as the runs
    there say. A GPU never seen takes the catalogue's, moved as those of the others were.
    """

    name: ClassVar[str] = "physics"
    num_parameters: ClassVar[int] = 2

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = typical_inputs(queries)
        self._time_gpus = tuple(sorted({profile.gpu for profile in queries.profiles}))
        kept = thinned(queries)
        queries, values = queries.select(kept), values[kept]
        if self.target == "time_s":
            self._time_weights = self._learned_time(queries, values)
        else:
            self._moved = self._learned_shapes(queries, values)
            self._weights = self._learned_weights(queries, values)
        self._doubt = _FIRST_DOUBT
        self._doubt = self._learned_doubt(queries, values)
        return self

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points; this one stays as it is.

        On a GPU that it was not trained on, two applications or more at two clocks or more also
        tell the constants of that GPU, as far as they differ from what was taken for them.

        Args:
            anchors: The points.
            profiled: Where profiles are taken from; ``None`` takes ``anchors`` itself.

        Raises:
            ConfigError: Before ``fit``, or if a profile is missing.
        """
        new = [gpu for gpu in anchors.boards if gpu not in self.domain.gpus]
        if not new:
            return super().adapt(anchors, profiled=profiled)
        queries = queries_of(anchors, profiled)
        grown = copy.copy(self)
        grown.place(queries, measured(anchors, self.target) / scale(queries, self.target), new)
        return super(PhysicsModel, grown).adapt(anchors, profiled=profiled)

    def place(self, queries: Queries, values: Array, gpus: Sequence[str]) -> None:
        """Learn the constants of new GPUs from some applications there, near the present ones."""
        for gpu in gpus:
            rows = self._rows_of(queries, gpu)
            here, there = queries.select(rows), values[rows]
            used, counts = np.unique(here.profile, return_counts=True)
            if len(used) < 2 or counts.max() < 2:
                continue
            if self.target == "time_s":
                known = np.append(self._time_weights, np.zeros(2))
                self._time_gpus = (*self._time_gpus, gpu)
                self._time_weights = self._fitted_time(here, there, known, len(known) - 2)
                continue
            self._moved = {**self._moved, gpu: self._learned_shape(here, there, self._moved[""])}
            solved = self.solved(here, there)[used, 0] - self.guess(here)[used, 0]
            self._weights = {**self._weights, gpu: self._weights[""] * np.exp(np.median(solved))}

    @override
    def guess(self, queries: Queries) -> Array:
        inputs = profile_inputs(queries, self._typical)
        if self.target == "time_s":
            return self._time_parameters(self._time_weights, queries, inputs)
        rows = zip(queries.profiles, inputs[:, :4], strict=True)
        dynamic = [self._weights.get(p.gpu, self._weights[""]) @ row for p, row in rows]
        logs = np.log(np.maximum(dynamic, _LEAST_DYNAMIC))
        return np.column_stack([logs, np.zeros(len(logs))])

    @override
    def law(self, queries: Queries, parameters: Array) -> Array:
        inputs = profile_inputs(queries, self._typical)
        each = parameters[queries.profile]
        if self.target == "time_s":
            knee = self._knee(queries, self._time_weights)
            return physics_time.relative_time(queries.clock_ratio, each, knee)
        values = np.empty(len(queries))
        for gpu in dict.fromkeys(profile.gpu for profile in queries.profiles):
            rows = self._rows_of(queries, gpu)
            if not len(rows):
                continue
            spec = queries.profiles[queries.profile[rows[0]]].spec
            values[rows] = spec.default_power_limit_w * self._shape(gpu, spec.key).power(
                queries.clock_ratio[rows],
                inputs[queries.profile[rows]],
                np.exp(each[rows, 0]),
                np.exp(each[rows, 1]),
            )
        return values

    @override
    def doubt(self) -> Array:
        return self._doubt

    @override
    def _state(self) -> State:
        known = super()._state()
        values = {**known.values, "time_gpus": list(self._time_gpus)}
        arrays = {**known.arrays, "typical": self._typical, "doubt": self._doubt}
        if self.target == "time_s":
            arrays["time_weights"] = self._time_weights
        else:
            arrays |= {f"moved.{gpu}": moved for gpu, moved in self._moved.items()}
            arrays |= {f"weights.{gpu}": weights for gpu, weights in self._weights.items()}
        return State(values=values, arrays=arrays)

    @override
    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._time_gpus = tuple(state.values.get("time_gpus", ()))
        self._typical, self._doubt = state.arrays["typical"], state.arrays["doubt"]
        if self.target == "time_s":
            self._time_weights = state.arrays["time_weights"]
        else:
            arrays = state.arrays
            self._moved = {"": arrays["moved."], **state.prefixed("moved.").arrays}
            self._weights = {"": arrays["weights."], **state.prefixed("weights.").arrays}

    def _learned_shapes(self, queries: Queries, values: Array) -> Mapping[str, Array]:
        """Return by how much each GPU's shape departs from the catalogue; ``""`` is the mean."""
        gpus = dict.fromkeys(profile.gpu for profile in queries.profiles)
        moved = {}
        for gpu in gpus:
            rows = self._rows_of(queries, gpu)
            if len(rows):
                moved[gpu] = self._learned_shape(queries.select(rows), values[rows])
        return {**moved, "": np.mean(list(moved.values()), axis=0)}

    def _learned_shape(self, queries: Queries, values: Array, first: Array | float = 0.0) -> Array:
        """Return by how much a GPU's shape departs from the catalogue, expected to be ``first``."""
        spec = queries.profiles[queries.profile[0]].spec
        start = shape_by_catalogue(spec) + first
        inputs = profile_inputs(queries, self._typical)[queries.profile]
        board = values / spec.default_power_limit_w
        top = _at_profile(queries, board)[queries.profile]
        weight = np.sqrt(_ROWS_PER_PROFILE / np.bincount(queries.profile)[queries.profile])

        def misfit(moved: Array) -> Array:
            shape = PowerShape.of(start + moved * DOUBT)
            dynamic = _dynamic(shape, top, inputs)
            predicted = shape.power(queries.clock_ratio, inputs, dynamic)
            errors = np.log(predicted / board) / _ROW_ERROR
            return np.concatenate([weight * _tamed(errors), moved])

        found = least_squares(misfit, np.zeros(len(start)), max_nfev=40)
        return np.asarray(first + found.x * DOUBT)

    def _learned_weights(self, queries: Queries, values: Array) -> Mapping[str, Array]:
        """Return dynamic power over the power limit per activity, by GPU; ``""`` is for any."""
        limits_w = np.array([p.spec.default_power_limit_w for p in queries.profiles])
        board = _at_profile(queries, values / limits_w[queries.profile])
        inputs = profile_inputs(queries, self._typical)
        used = np.unique(queries.profile)
        dynamic = np.array(
            [self._dynamic_of(queries.profiles[i], board[i], inputs[i]) for i in used]
        )
        weights = {"": _weights(inputs[used, :4], dynamic, board[used])}
        labels = np.array([queries.profiles[i].gpu for i in used])
        for gpu in np.unique(labels):
            own = labels == gpu
            if own.sum() >= _OWN_WEIGHTS:
                weights[str(gpu)] = _weights(inputs[used[own], :4], dynamic[own], board[used[own]])
        return weights

    def _dynamic_of(self, profile: Profile, board: float, inputs: Array) -> float:
        shape = self._shape(profile.gpu, profile.spec.key)
        return float(_dynamic(shape, np.array([board]), inputs[None, :])[0])

    def _learned_doubt(self, queries: Queries, values: Array) -> Array:
        """Return by how much the parameters of the profiles differ from those guessed for them."""
        used = np.unique(queries.profile)
        moved = (self.solved(queries, values) - self.guess(queries))[used]
        return np.asarray(np.clip(np.sqrt(np.mean(moved**2, axis=0)), *_DOUBTS))

    def _learned_time(self, queries: Queries, values: Array) -> Array:
        zeros = np.zeros(len(physics_time.WEIGHTS) + 2 * len(self._time_gpus))
        return self._fitted_time(queries, values, zeros, 0)

    def _fitted_time(self, queries: Queries, values: Array, known: Array, first: int) -> Array:
        """Return the weights, of which those before ``first`` are known and the others near 0."""
        inputs = profile_inputs(queries, self._typical)
        weight = np.sqrt(_ROWS_PER_PROFILE / np.bincount(queries.profile)[queries.profile])
        of_gpus = np.full(len(known) - len(physics_time.DOUBT), _GPU_DOUBT)
        doubt = np.append(physics_time.DOUBT, of_gpus)[first:]

        def misfit(moved: Array) -> Array:
            weights = np.append(known[:first], moved * doubt)
            each = self._time_parameters(weights, queries, inputs)[queries.profile]
            predicted = physics_time.relative_time(
                queries.clock_ratio, each, self._knee(queries, weights)
            )
            return np.concatenate([weight * _tamed(np.log(predicted / values) / 0.05), moved])

        found = least_squares(misfit, np.zeros(len(doubt)), max_nfev=60)
        return np.append(known[:first], found.x * doubt)

    def _time_parameters(self, weights: Array, queries: Queries, inputs: Array) -> Array:
        """Return the parameters of each profile: by its activities, and as usual on its GPU."""
        shared, own = np.split(weights, [len(physics_time.WEIGHTS)])
        usual = dict(zip(self._time_gpus, own.reshape(-1, 2), strict=True))
        moved = [usual.get(profile.gpu, np.zeros(2)) for profile in queries.profiles]
        return physics_time.application_parameters(shared, inputs) + np.array(moved)

    def _knee(self, queries: Queries, weights: Array) -> Array:
        knees = [p.spec.timing.memory_knee_mhz / p.clock_mhz for p in queries.profiles]
        return np.asarray(
            np.minimum(
                queries.of_profiles(knees) * np.exp(weights[len(physics_time.WEIGHTS) - 1]), 1.0
            )
        )

    def _shape(self, gpu: str, board: str) -> PowerShape:
        moved = self._moved.get(gpu, self._moved[""])
        return PowerShape.of(shape_by_catalogue(GPUS[board]) + moved)

    def _rows_of(self, queries: Queries, gpu: str) -> Index:
        chosen = np.array([profile.gpu == gpu for profile in queries.profiles])
        return np.flatnonzero(chosen[queries.profile])


def _dynamic(shape: PowerShape, board: Array, inputs: Array) -> Array:
    """Return the dynamic power that explains board power at the clock of the profile."""
    static = shape.static(np.ones(len(board)), inputs[:, 0])
    return np.maximum(lossless(board) - static, _LEAST_DYNAMIC)


def _at_profile(queries: Queries, values: Array) -> Array:
    """Return the value of each profile at the query nearest to its own clock."""
    found = np.full(len(queries.profiles), np.nan)
    distance = np.abs(np.log(queries.clock_ratio))
    for number in np.unique(queries.profile):
        rows = np.flatnonzero(queries.profile == number)
        found[number] = values[rows[np.argmin(distance[rows])]]
    return found


def _weights(inputs: Array, dynamic: Array, board: Array) -> Array:
    """Fit dynamic power to activities, errors relative to board power, no weight negative."""
    return np.asarray(nnls(inputs / board[:, None], dynamic / board)[0])


def _tamed(errors: Array) -> Array:
    """Return errors whose squares grow but linearly beyond 1 (soft L1)."""
    return np.asarray(np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0)))
