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
from joulelab.power_models.members.physics_power import PowerShape, shape_by_catalogue
from joulelab.power_models.members.power_cap import caps_seen, clamped
from joulelab.power_models.members.scatter import own_scatter
from joulelab.power_models.members.shape_fit import (
    LEAST_DYNAMIC,
    ROWS_PER_PROFILE,
    dynamic_of,
    fitted_shape,
    tamed,
)
from joulelab.power_models.members.thinning import thinned
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.runs import Array, Index, Names, Runs
from joulelab.power_models.state import State
from joulelab.power_models.targets import measured, scale

_TIME_ERROR = 0.05
"""Relative error of the law of time; larger ones count as outliers do."""
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
    there say. A GPU never seen takes the catalogue's, moved as those of the others were. Power at a
    cap is known to be no less without it, and is answered up to the cap.
    """

    name: ClassVar[str] = "physics"
    num_parameters: ClassVar[int] = 2

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = typical_inputs(queries)
        self._time_gpus = tuple(sorted({profile.gpu for profile in queries.profiles}))
        self.caps_w = self._caps_seen(queries, values)
        scatter, kept = own_scatter(queries, values), thinned(queries)
        self.scatters = scatter[scatter > 0.0]
        queries, values = queries.select(kept), values[kept]
        if self.target == "time_s":
            self._time_weights = self._learned_time(queries, values, scatter)
        else:
            self._moved, board = self._learned_shapes(queries, values, scatter)
            self._weights = self._learned_weights(queries, board)
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
        queries = queries_of(anchors, profiled)
        values = measured(anchors, self.target) / scale(queries, self.target)
        grown = copy.copy(self)
        grown.caps_w = {**self.caps_w, **self._caps_seen(queries, values)}
        grown.place(queries, values, [g for g in anchors.boards if g not in self.domain.gpus])
        return super(PhysicsModel, grown).adapt(anchors, profiled=profiled)

    def place(self, queries: Queries, values: Array, gpus: Sequence[str]) -> None:
        """Learn the constants of new GPUs from some applications there, near the present ones."""
        for gpu in gpus:
            rows = self._rows_of(queries, gpu)
            here, there = queries.select(rows), values[rows]
            scatter = own_scatter(here, there)
            used, counts = np.unique(here.profile, return_counts=True)
            if len(used) < 2 or counts.max() < 2:
                continue
            if self.target == "time_s":
                known = np.append(self._time_weights, np.zeros(2))
                self._time_gpus = (*self._time_gpus, gpu)
                self._time_weights = self._fitted_time(here, there, scatter, known, len(known) - 2)
                continue
            moved, _ = self._learned_shape(here, there, scatter, self._moved[""])
            self._moved = {**self._moved, gpu: moved}
            solved = self.solved(here, there)[used, 0] - self.guess(here)[used, 0]
            self._weights = {**self._weights, gpu: self._weights[""] * np.exp(np.median(solved))}

    @override
    def guess(self, queries: Queries) -> Array:
        inputs = profile_inputs(queries, self._typical)
        if self.target == "time_s":
            return self._time_parameters(self._time_weights, queries, inputs)
        rows = zip(queries.profiles, inputs[:, :4], strict=True)
        dynamic = [self._weights.get(p.gpu, self._weights[""]) @ row for p, row in rows]
        logs = np.log(np.maximum(dynamic, LEAST_DYNAMIC))
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
        return clamped(queries, values, self.caps_w)

    @override
    def doubt(self) -> Array:
        return self._doubt

    @override
    def _state(self) -> State:
        known = super()._state()
        values = {
            **known.values,
            "time_gpus": list(self._time_gpus),
            "caps_w": dict(self.caps_w),
        }
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
        self.caps_w = state.values["caps_w"]
        self._typical, self._doubt = state.arrays["typical"], state.arrays["doubt"]
        if self.target == "time_s":
            self._time_weights = state.arrays["time_weights"]
        else:
            arrays = state.arrays
            self._moved = {"": arrays["moved."], **state.prefixed("moved.").arrays}
            self._weights = {"": arrays["weights."], **state.prefixed("weights.").arrays}

    def _caps_seen(self, queries: Queries, values: Array) -> Mapping[str, float]:
        return caps_seen(queries, values) if self.target == "power_w" else {}

    def _learned_shapes(
        self, queries: Queries, values: Array, scatter: Array
    ) -> tuple[Mapping[str, Array], Array]:
        """Return by how much each GPU's shape departs from the catalogue; ``""`` is the mean.

        And for each profile its power over the power limit at its clock, not a number where it
        has no rows.
        """
        moved, board = {}, np.full(len(queries.profiles), np.nan)
        for gpu in dict.fromkeys(profile.gpu for profile in queries.profiles):
            rows = self._rows_of(queries, gpu)
            if len(rows):
                moved[gpu], own = self._learned_shape(queries.select(rows), values[rows], scatter)
                board = np.where(np.isnan(own), board, own)
        return {**moved, "": np.mean(list(moved.values()), axis=0)}, board

    def _learned_shape(
        self, queries: Queries, values: Array, scatter: Array, first: Array | float = 0.0
    ) -> tuple[Array, Array]:
        profile = queries.profiles[queries.profile[0]]
        limit_w = profile.spec.default_power_limit_w
        return fitted_shape(
            queries,
            values / limit_w,
            profile_inputs(queries, self._typical),
            scatter=scatter,
            cap=self.caps_w.get(profile.gpu, np.inf) / limit_w,
            first=first,
        )

    def _learned_weights(self, queries: Queries, board: Array) -> Mapping[str, Array]:
        """Return dynamic power over the power limit per activity, by GPU; ``""`` is for any."""
        inputs = profile_inputs(queries, self._typical)
        used = np.unique(queries.profile)
        labels = np.array([queries.profiles[i].gpu for i in used])
        dynamic = np.empty(len(used))
        for gpu in np.unique(labels):
            own = used[labels == gpu]
            shape = self._shape(gpu, queries.profiles[own[0]].spec.key)
            dynamic[labels == gpu] = dynamic_of(shape, board[own], inputs[own])
        weights = {"": _weights(inputs[used, :4], dynamic, board[used])}
        for gpu in np.unique(labels):
            own = labels == gpu
            if own.sum() >= _OWN_WEIGHTS:
                weights[str(gpu)] = _weights(inputs[used[own], :4], dynamic[own], board[used[own]])
        return weights

    def _learned_doubt(self, queries: Queries, values: Array) -> Array:
        """Return by how much the parameters of the profiles differ from those guessed for them."""
        used = np.unique(queries.profile)
        moved = (self.solved(queries, values) - self.guess(queries))[used]
        return np.asarray(np.clip(np.sqrt(np.mean(moved**2, axis=0)), *_DOUBTS))

    def _learned_time(self, queries: Queries, values: Array, scatter: Array) -> Array:
        zeros = np.zeros(len(physics_time.WEIGHTS) + 2 * len(self._time_gpus))
        return self._fitted_time(queries, values, scatter, zeros, 0)

    def _fitted_time(
        self, queries: Queries, values: Array, scatter: Array, known: Array, first: int
    ) -> Array:
        """Return the weights, of which those before ``first`` are known and the others near 0.

        All values of a profile are over one measured time, whose scatter they have in common: as
        much of their mean error as that may be is taken off.
        """
        inputs = profile_inputs(queries, self._typical)
        count = np.bincount(queries.profile, minlength=len(scatter))
        weight = np.sqrt(ROWS_PER_PROFILE / count[queries.profile])
        row_error = np.hypot(_TIME_ERROR, scatter)
        common = 1.0 / (1.0 + row_error**2 / np.maximum(ROWS_PER_PROFILE * scatter**2, 1e-12))
        of_gpus = np.full(len(known) - len(physics_time.DOUBT), _GPU_DOUBT)
        doubt = np.append(physics_time.DOUBT, of_gpus)[first:]

        def misfit(moved: Array) -> Array:
            weights = np.append(known[:first], moved * doubt)
            each = self._time_parameters(weights, queries, inputs)[queries.profile]
            predicted = physics_time.relative_time(
                queries.clock_ratio, each, self._knee(queries, weights)
            )
            errors = np.log(predicted / values)
            mean = np.bincount(queries.profile, errors, len(scatter)) / np.maximum(count, 1)
            left = errors - (common * mean)[queries.profile]
            return np.concatenate([weight * tamed(left / row_error[queries.profile]), moved])

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


def _weights(inputs: Array, dynamic: Array, board: Array) -> Array:
    """Fit dynamic power to activities, errors relative to board power, no weight negative."""
    return np.asarray(nnls(inputs / board[:, None], dynamic / board)[0])
