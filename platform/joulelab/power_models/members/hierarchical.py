"""Members with a hierarchy of parameters: shared, of the GPU, of the application."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from typing_extensions import override

from joulelab.power_models.correction import correction_of
from joulelab.power_models.features import matrix
from joulelab.power_models.members.hierarchy import (
    Posterior,
    Rows,
    doubt_of_unmeasured,
    expected,
    learned,
    updated,
    without_pairs,
)
from joulelab.power_models.members.laws import INPUTS, Law
from joulelab.power_models.members.power_cap import capped, caps_seen, clamped
from joulelab.power_models.members.spread import SpreadModel
from joulelab.power_models.members.thinning import thinned
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.runs import Array, Flags, Names, Runs
from joulelab.power_models.state import State
from joulelab.power_models.targets import measured, scale

_ARRAYS = ("mean", "covariance", "gpu_scatter", "application_scatter")
_UNREAD = np.array([0.15, 0.4, 0.0, 0.8, 0.9, 1.0])
"""What stands for an input that no run has: a busy GPU without tensor cores."""


class HierarchicalModel(SpreadModel):
    """A law with a hierarchy of parameters.

    Anchors move what is known of their application and of its GPU, by as much as each is in
    doubt: a GPU never seen starts where GPUs are expected, and a few applications measured there
    place it. The spread is that of the posterior. Power at a cap is known to be no less without
    it, and is answered up to the cap.
    """

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of the target."""

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self.caps_w = self._caps_seen(queries, values)
        rows = thinned(queries)
        queries, values = queries.select(rows), values[rows]
        inputs = matrix(queries, INPUTS)
        read = ~np.isnan(inputs).all(axis=0)
        self._typical = _UNREAD.copy()
        self._typical[read] = np.nanmedian(inputs[:, read], axis=0)
        told = self._rows(queries, capped(queries, values, self.caps_w))
        self.posterior = learned(self.law, told, self._logs(queries, values))
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        logs = expected(self.law, self.posterior, self._rows(queries))
        return clamped(queries, np.exp(logs) * self._unit(queries), self.caps_w)

    @override
    def spread(self, queries: Queries) -> Array:
        return doubt_of_unmeasured(self.law, self.posterior, self._rows(queries))

    @override
    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points; this one stays as it is.

        They are weighed as the posterior has it; what they are still off by is then scaled away
        as for every model.

        Args:
            anchors: The points.
            profiled: Where profiles are taken from; ``None`` takes ``anchors`` itself.

        Raises:
            ConfigError: Before ``fit``, or if a profile is missing.
        """
        queries = queries_of(anchors, profiled)
        self._check_inside(queries)
        values = measured(anchors, self.target) / scale(queries, self.target)
        adapted = self._told(queries, values)
        return super(HierarchicalModel, adapted).adapt(anchors, profiled=profiled)

    @override
    def errors_after(self, ratios: tuple[float, ...], queries: Queries, values: Array) -> Array:
        errors = np.full(len(queries), np.nan)
        log_ratio = np.log(queries.clock_ratio)
        for number in np.unique(queries.profile):
            rows = np.flatnonzero(queries.profile == number)
            distance = np.abs(log_ratio[rows, None] - np.log(ratios))
            near = rows[np.unique(distance.argmin(axis=0))]
            told = self._told(queries.select(near), values[near])
            left = np.log(values[rows] / told.answer(queries.select(rows)))
            at = np.searchsorted(rows, near)
            errors[rows] = left - correction_of(log_ratio[near], left[at]).at(log_ratio[rows])
            errors[near] = np.nan
        return errors

    @override
    def _state(self) -> State:
        known = self.posterior
        values: dict[str, Any] = {
            "gpus": list(known.gpus),
            "pairs": [list(pair) for pair in known.pairs],
            "noise": known.noise,
            "caps_w": dict(self.caps_w),
        }
        arrays = {name: getattr(known, name) for name in _ARRAYS}
        return State(values=values, arrays={**arrays, "typical": self._typical})

    @override
    def _restore(self, state: State) -> None:
        self._typical = state.arrays["typical"]
        self.caps_w = state.values["caps_w"]
        self.posterior = Posterior(
            gpus=tuple(state.values["gpus"]),
            pairs=tuple((gpu, application) for gpu, application in state.values["pairs"]),
            noise=state.values["noise"],
            **{name: state.arrays[name] for name in _ARRAYS},
        )

    def _told(self, queries: Queries, values: Array) -> Self:
        """Return a model whose posterior knows ``values`` as well."""
        adapted = copy.copy(self)
        adapted.caps_w = {**self.caps_w, **self._caps_seen(queries, values)}
        kept = thinned(queries)
        queries, values = queries.select(kept), values[kept]
        rows = self._rows(queries, capped(queries, values, adapted.caps_w))
        known = without_pairs(self.law, self.posterior, rows.pairs)
        adapted.posterior = updated(self.law, known, rows, self._logs(queries, values))
        return adapted

    def _caps_seen(self, queries: Queries, values: Array) -> Mapping[str, float]:
        return caps_seen(queries, values) if self.target == "power_w" else {}

    def _rows(self, queries: Queries, at_least: Flags | None = None) -> Rows:
        used, pair = np.unique(queries.profile, return_inverse=True)
        return Rows(
            terms=self.law.terms(queries, self._typical),
            pairs=tuple(queries.profiles[number].pair for number in used),
            pair=np.asarray(pair, dtype=np.intp),
            at_least=at_least,
        )

    def _logs(self, queries: Queries, values: Array) -> Array:
        return np.log(values / self._unit(queries))

    def _unit(self, queries: Queries) -> Array:
        if self.target == "time_s":
            return np.ones(len(queries))
        return queries.of_profiles([p.spec.default_power_limit_w for p in queries.profiles])
