"""The physical member: laws of power and time, with constants fitted near the catalogue's."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.core.power_law import relative_time
from joulelab.core.process import one_thread
from joulelab.hardware import GPUS
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.base import PowerModel
from joulelab.power_models.calibration import Corrections
from joulelab.power_models.members.physics_fits import (
    LEAST_DYNAMIC,
    fitted_shape,
    fitted_time,
    learned_weights,
)
from joulelab.power_models.members.physics_laws import (
    TIME_WEIGHTS,
    PowerShape,
    expected_departure,
    least_odds,
    memory_knee,
    profile_inputs,
    shape_by_catalogue,
    time_parameters,
)
from joulelab.power_models.members.readings import (
    Law,
    Readings,
    caps_seen,
    fitted_to,
    met,
    own_scatter,
    thinned,
)
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Names, Pair, Runs
from joulelab.power_models.state import State

_FIRST_DOUBT = np.array([2.0, 2.0])
_DOUBTS = (0.02, 2.0)


class PhysicsModel(PowerModel):
    """Laws of physics, with the shape shared by applications and the level known by activities.

    Dynamic power is a sum over unit activities with weights of at least 0, so that nothing is
    drawn without work; constants of a GPU start from the catalogue and move as far as the runs
    there say. A GPU never seen takes the catalogue's, moved as the others were, above all those
    with the same SMs. Power at a cap is no less without it, and is answered up to the cap.

    An application has two parameters, guessed from its profile or shown by anchors: the logs of
    dynamic power and of how much steeper it is than the law, or what
    :func:`~.physics_laws.time_parameters` returns.
    """

    name: ClassVar[str] = "physics"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.known: Mapping[Pair, Array] = {}
        self.least_odds: Mapping[Pair, float] = {}
        self.caps_w: Mapping[str, float] = {}
        self.moved: Mapping[str, Array] = {}
        self.boards: Mapping[str, str] = {}
        self.measured: Mapping[str, Array] = {}
        self._weights: Mapping[str, Array] = {}

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        profiles = [queries.profiles[number] for number in np.unique(queries.profile)]
        self.known, self.boards = {}, {profile.gpu: profile.board for profile in profiles}
        self._time_gpus: tuple[str, ...] = tuple(sorted(self.boards))
        self.caps_w = caps_seen(queries, values) if self.target == "power_w" else {}
        scatter, kept = own_scatter(queries, values), thinned(queries)
        self._scatters = scatter[scatter > 0.0]
        queries, values = queries.select(kept), values[kept]
        if self.target == "time_s":
            zeros = np.zeros(len(TIME_WEIGHTS) + 2 * len(self._time_gpus))
            self._time_weights = self._fitted_time(queries, values, scatter, zeros, 0)
        else:
            self.moved, board = self._learned_shapes(queries, values, scatter)
            self._weights = learned_weights(queries, profile_inputs(queries), board, self._shape)
        self._doubt = _FIRST_DOUBT
        moved = self._departures(queries, values)
        self._doubt = np.clip(np.sqrt(np.mean(moved**2, axis=0)), *_DOUBTS)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        parameters = self._guess(queries)
        for number, profile in enumerate(queries.profiles):
            if profile.pair in self.known:
                parameters[number] = self.known[profile.pair]
        return self._law_of(queries)(parameters)

    @override
    def on_board(self, gpu: str, spec: GpuSpec) -> Self:
        aware = copy.copy(self)
        own = shape_by_catalogue(spec) - shape_by_catalogue(GPUS[spec.key])
        aware.measured = {**self.measured, gpu: own}
        return aware

    @override
    @one_thread()
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points, as every model does.

        They show the parameters of their applications, as far as they can; what is left is
        scaled away as for every model. On a GPU that it was not trained on, two applications or
        more at two clocks or more also show how its constants differ from what was taken.
        """
        queries, values = self._learnable(anchors, profiled)
        adapted = copy.copy(self)
        adapted.least_odds = least_odds(queries, anchors.over_limit, self._time_gpus)
        free = queries.of_profiles([p.pair not in self.held_mhz for p in queries.profiles]) > 0
        tells = free.any() and self.target == "power_w"
        seen = caps_seen(queries.select(free), values[free]) if tells else {}
        adapted.caps_w = {**self.caps_w, **seen}
        adapted.place(queries, values, [g for g in anchors.boards if g not in self.domain.gpus])
        scaled = super(PhysicsModel, adapted).adapt(anchors, profiled=profiled)
        parameters, scatter = adapted.shown(queries, values)
        shown = {p.pair: row for p, row in zip(queries.profiles, parameters, strict=True)}
        adapted.known = {**self.known, **shown}
        log_error = np.log(values / adapted.answer(queries))
        found = self.corrections.with_anchors(queries, log_error, self.domain.gpus, scatter)
        adapted.corrections = Corrections(pairs=found.pairs, boards=scaled.corrections.boards)
        return adapted

    @override
    def errors_after(self, ratios: tuple[float, ...], queries: Queries, values: Array) -> Array:
        anchors = queries.nearest(ratios)
        if not anchors.any():
            return np.asarray(np.log(values / self.answer(queries)))
        measured_at = queries.select(anchors)
        parameters, scatter = self.shown(measured_at, values[anchors])
        errors = np.log(values / self._law_of(queries)(parameters))
        corrections = self.corrections.with_anchors(measured_at, errors[anchors], (), scatter)
        return np.where(anchors, np.nan, errors - corrections.log_factor(queries))

    @override
    def _state(self) -> State:
        found = np.array(list(self.known.values())).reshape(-1, 2)
        values = {
            "known": [list(pair) for pair in self.known],
            "time_gpus": list(self._time_gpus),
            "caps_w": dict(self.caps_w),
            "boards": dict(self.boards),
        }
        arrays = {"scatters": self._scatters, "doubt": self._doubt, "known": found}
        if self.target == "time_s":
            arrays["time_weights"] = self._time_weights
        by_gpu = {"moved": self.moved, "measured": self.measured, "weights": self._weights}
        arrays |= {f"{name}.{gpu}": own for name, of in by_gpu.items() for gpu, own in of.items()}
        return State(values=values, arrays=arrays)

    @override
    def _restore(self, state: State) -> None:
        arrays = state.arrays
        pairs = [(gpu, application) for gpu, application in state.values["known"]]
        self.known = dict(zip(pairs, arrays["known"], strict=True))
        self._scatters, self._doubt = arrays["scatters"], arrays["doubt"]
        self._time_gpus = tuple(state.values.get("time_gpus", ()))
        self.caps_w, self.boards = state.values["caps_w"], state.values["boards"]
        self.measured = state.prefixed("measured.").arrays
        if self.target == "time_s":
            self._time_weights = arrays["time_weights"]
            return
        self.moved = {"": arrays["moved."], **state.prefixed("moved.").arrays}
        self._weights = {"": arrays["weights."], **state.prefixed("weights.").arrays}

    def _guess(self, queries: Queries) -> Array:
        """Return the parameters of each profile without anchors, shape (profiles, 2)."""
        inputs = profile_inputs(queries)
        if self.target == "time_s":
            odds, memory = time_parameters(self._time_weights, self._time_gpus, queries, inputs).T
            least = [self.least_odds.get(profile.pair, -np.inf) for profile in queries.profiles]
            return np.column_stack([np.maximum(odds, least), memory])
        rows, usual = zip(queries.profiles, inputs[:, :4], strict=True), self._weights[""]
        dynamic = [self._weights.get(p.gpu, usual) @ row for p, row in rows]
        logs = np.log(np.maximum(dynamic, LEAST_DYNAMIC))
        return np.column_stack([logs, np.zeros(len(logs))])

    def _law_of(self, queries: Queries) -> Law:
        """Return the values of ``queries`` by the parameters of all profiles."""
        which, ratio = queries.profile, queries.clock_ratio
        if self.target == "time_s":
            knee = memory_knee(queries, self._time_weights, self.measured)
            return lambda parameters: relative_time(ratio, parameters[which], knee)
        inputs = profile_inputs(queries)[which]
        boards = []
        for gpu, rows in queries.by_gpu():
            spec = queries.profiles[which[rows[0]]].spec
            cap_w = self.caps_w.get(gpu, np.inf)
            boards.append((rows, self._shape(gpu, spec.key), spec.default_power_limit_w, cap_w))

        def law(parameters: Array) -> Array:
            values = np.empty(len(which))
            dynamic, exponent = np.exp(parameters[which]).T
            for rows, shape, limit_w, cap_w in boards:
                share = shape.power(ratio[rows], inputs[rows], dynamic[rows], exponent[rows])
                values[rows] = np.minimum(limit_w * share, cap_w)
            return values

        return law

    def shown(self, queries: Queries, values: Array) -> tuple[Array, Array]:
        """Return the parameters that readings show of each profile, and the scatter of these.

        The scatter is 0 where readings are met: one alone, and those on kinds of GPU that were not
        trained on, where guesses are too far off for readings to seem to scatter.
        """
        parameters, scatter = self._guess(queries), np.zeros(len(queries.profiles))
        counts = np.bincount(queries.profile, minlength=len(scatter))
        weighed = (counts > 1) & [p.board in self.domain.boards for p in queries.profiles]
        moved, again = np.zeros(parameters.shape), weighed[queries.profile]
        if not again.all():
            moved = met(self._readings(queries.select(~again), values[~again]))
        if again.any():
            free_level = self.target == "time_s"
            read = self._readings(queries.select(again), values[again], free_level=free_level)
            fit = fitted_to(read, self._scatters)
            moved = np.where(weighed[:, None], fit.moved, moved)
            scatter = np.where(weighed, fit.scatter, 0.0)
        return parameters + moved * self._doubt, scatter

    def _departures(self, queries: Queries, values: Array) -> Array:
        """Return how far the parameters of the profiles asked about are from those guessed."""
        moved = met(self._readings(queries, values)) * self._doubt
        return np.asarray(moved[np.unique(queries.profile)])

    def _readings(self, queries: Queries, values: Array, *, free_level: bool = False) -> Readings:
        guesses, law, doubt = self._guess(queries), self._law_of(queries), self._doubt
        return Readings(
            law=lambda moved: law(guesses + moved * doubt),
            values=values,
            which=queries.profile,
            shape=(len(guesses), 2),
            free_level=free_level,
        )

    def place(self, queries: Queries, values: Array, gpus: Sequence[str]) -> None:
        """Learn the constants of new GPUs from some applications there, near the present ones."""
        for gpu, rows in queries.by_gpu():
            here, there = queries.select(rows), values[rows]
            scatter = own_scatter(here, there)
            used, counts = np.unique(here.profile, return_counts=True)
            if gpu not in gpus or len(used) < 2 or counts.max() < 2:
                continue
            if self.target == "time_s":
                known = np.append(self._time_weights, np.zeros(2))
                self._time_gpus = (*self._time_gpus, gpu)
                self._time_weights = self._fitted_time(here, there, scatter, known, len(known) - 2)
                continue
            first = expected_departure(here.profiles[used[0]].spec, self.moved, self.boards)
            moved, _ = self._learned_shape(here, there, scatter, first)
            self.moved = {**self.moved, gpu: moved}
            level = np.median(self._departures(here, there)[:, 0])
            self._weights = {**self._weights, gpu: self._weights[""] * np.exp(level)}

    def _fitted_time(
        self, queries: Queries, values: Array, scatter: Array, known: Array, first: int
    ) -> Array:
        gpus, own = self._time_gpus, self.measured
        return fitted_time(queries, values, scatter, gpus=gpus, known=known, first=first, own=own)

    def _learned_shapes(
        self, queries: Queries, values: Array, scatter: Array
    ) -> tuple[Mapping[str, Array], Array]:
        """Return by how much each GPU's shape departs from the catalogue; ``""`` is the mean.

        And for each profile its power over the power limit at its clock, not a number where it
        has no rows.
        """
        moved, board = {}, np.full(len(queries.profiles), np.nan)
        for gpu, rows in queries.by_gpu():
            moved[gpu], own = self._learned_shape(queries.select(rows), values[rows], scatter)
            board = np.where(np.isnan(own), board, own)
        return {**moved, "": np.mean(list(moved.values()), axis=0)}, board

    def _learned_shape(
        self, queries: Queries, values: Array, scatter: Array, first: Array | float = 0.0
    ) -> tuple[Array, Array]:
        profile, inputs = queries.profiles[queries.profile[0]], profile_inputs(queries)
        limit_w, own = profile.spec.default_power_limit_w, self.measured.get(profile.gpu, 0.0)
        board, cap = values / limit_w, self.caps_w.get(profile.gpu, np.inf) / limit_w
        first = first + own
        moved, top = fitted_shape(queries, board, inputs, scatter=scatter, cap=cap, first=first)
        return moved - own, top

    def _shape(self, gpu: str, board: str) -> PowerShape:
        spec, own = GPUS[board], self.moved.get(gpu)
        own = expected_departure(spec, self.moved, self.boards) if own is None else own
        return PowerShape.of(shape_by_catalogue(spec) + own + self.measured.get(gpu, 0.0))
