"""The training domain: what a model was shown, and how far a query is from it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from joulelab.power_models.columns import ACTIVITIES
from joulelab.power_models.features import matrix
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array

DOMAIN_FEATURES = (
    *ACTIVITIES,
    "clock_ratio",
    "sm_count",
    "default_power_limit_w",
    "memory_bandwidth_b_per_s",
)
_LEAST_SHARE = 0.25
"""A range counts as at least this wide: absolute for activities, relative to its upper end else."""
_UNREAD = 0.25
_SLACK = 0.05
"""Share of a range that a query may exceed it by before it counts as outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDomain:
    """Ranges of the features that a model was trained on.

    Attributes:
        ranges: Lowest and highest value of each feature that was read.
        partly_unread: Features that some training profiles lacked.
        gpus: Labels of the GPUs.
    """

    ranges: Mapping[str, tuple[float, float]]
    partly_unread: tuple[str, ...]
    gpus: tuple[str, ...]

    @classmethod
    def of(cls, queries: Queries) -> "TrainingDomain":
        """Return the domain that ``queries`` span."""
        values = matrix(queries, DOMAIN_FEATURES)
        read = ~np.isnan(values)
        columns = dict(zip(DOMAIN_FEATURES, values.T, strict=True))
        return cls(
            ranges={
                name: (float(np.nanmin(column)), float(np.nanmax(column)))
                for (name, column), known in zip(columns.items(), read.T, strict=True)
                if known.any()
            },
            partly_unread=tuple(
                name
                for name, known in zip(DOMAIN_FEATURES, read.T, strict=True)
                if known.any() and not known.all()
            ),
            gpus=tuple(sorted({profile.gpu for profile in queries.profiles})),
        )

    def excess(self, queries: Queries) -> Array:
        """Return how far each query is outside: 0 inside, 1 a whole range beyond an end.

        The largest over the features; one that was not read counts a little where training had it
        always: it lies somewhere in the range.
        """
        return np.asarray(np.max(self._excesses(queries), axis=1, initial=0.0))

    def findings(self, queries: Queries) -> tuple[str, ...]:
        """Say what is outside, one sentence per profile and feature."""
        excesses = self._excesses(queries)
        values = matrix(queries, tuple(self.ranges))
        found = []
        for column, (name, (low, high)) in enumerate(self.ranges.items()):
            for number, profile in enumerate(queries.profiles):
                rows = np.flatnonzero((queries.profile == number) & (excesses[:, column] > 0))
                if len(rows):
                    worst = values[rows[np.argmax(excesses[rows, column])], column]
                    seen = "unread" if np.isnan(worst) else f"{worst:.4g}"
                    found.append(
                        f"{name} of {profile.application!r} on {profile.gpu!r} is {seen}; "
                        f"trained on {low:.4g} to {high:.4g}."
                    )
        return tuple(found)

    def _excesses(self, queries: Queries) -> Array:
        values = matrix(queries, tuple(self.ranges))
        low, high = np.array(list(self.ranges.values())).T
        least = np.array(
            [_LEAST_SHARE * (1 if n in ACTIVITIES else r[1]) for n, r in self.ranges.items()]
        )
        span = np.maximum(high - low, least)
        beyond = np.maximum(low - values, values - high) / span
        always = np.array([name not in self.partly_unread for name in self.ranges])
        unread = np.where(always, _UNREAD, 0.0)
        beyond = np.where(np.isnan(values), unread, beyond)
        return np.where(beyond > _SLACK, beyond, 0.0)
