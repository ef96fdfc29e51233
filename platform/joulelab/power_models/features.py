"""Features: the numbers that members work on, and the training domain that they span.

All are from profile, clock and catalogue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.columns import ACTIVITIES
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array
from joulelab.power_models.state import State
from joulelab.registry import unknown_name


def matrix(queries: Queries, names: Sequence[str]) -> Array:
    """Return the features ``names``, shape ``(n, len(names))``; not a number where unread.

    Raises UnknownNameError if there is no such feature.
    """
    for name in names:
        if name not in FEATURES:
            raise unknown_name("feature", name, FEATURES)
    return np.column_stack([FEATURES[name](queries) for name in names])


def medians(values: Array, otherwise: Array | float = np.nan) -> Array:
    """Return the median of each column over where it was read, ``otherwise`` where nowhere."""
    read = ~np.isnan(values).all(axis=0)
    found = np.full(values.shape[1], otherwise)
    found[read] = np.nanmedian(values[:, read], axis=0)
    return found


def required_medians(values: Array, names: Sequence[str]) -> Array:
    """Return the median of each column over where it was read.

    Raises ConfigError if a feature was read nowhere.
    """
    found = medians(values)
    unread = [name for name, typical in zip(names, found, strict=True) if np.isnan(typical)]
    if unread:
        raise ConfigError(
            f"Columns {unread} are required by this model at the default clock, got none of them."
        )
    return found


def filled(values: Array, typical: Array) -> Array:
    """Return ``values`` with ``typical`` ones where a feature was not read."""
    return np.where(np.isnan(values), typical, values)


def _of_board(name: str) -> Callable[[Queries], Array]:
    figure = attrgetter(name)
    return lambda queries: queries.of_profiles([float(figure(p.spec)) for p in queries.profiles])


def _activity(name: str) -> Callable[[Queries], Array]:
    return lambda queries: queries.of_profiles(
        [profile.activity.get(name, np.nan) for profile in queries.profiles]
    )


_RIDGE_MHZ = _of_board("voltage.ridge_mhz")


def _voltage(queries: Queries) -> Array:
    found = np.empty(len(queries))
    for number, rows in queries.by_profile():
        curve = queries.profiles[number].spec.voltage
        found[rows] = curve.at(queries.sm_clock_mhz[rows])
    return found


FEATURES: Mapping[str, Callable[[Queries], Array]] = {
    **{name: _activity(name) for name in ACTIVITIES},
    "clock_ratio": lambda queries: queries.clock_ratio,
    "log_clock_ratio": lambda queries: np.log(queries.clock_ratio),
    "sm_clock_mhz": lambda queries: queries.sm_clock_mhz,
    "log_clock_mhz": lambda queries: np.log(queries.sm_clock_mhz),
    "sm_count": _of_board("sm_count"),
    "default_clock_mhz": _of_board("default_clock_mhz"),
    "default_power_limit_w": _of_board("default_power_limit_w"),
    "memory_bandwidth_b_per_s": _of_board("memory_bandwidth_b_per_s"),
    "constant_w": _of_board("power.constant_w"),
    "clock_over_ridge": lambda queries: queries.sm_clock_mhz / _RIDGE_MHZ(queries),
    "voltage": _voltage,
}
"""How each is worked out. Of the catalogue: ``voltage`` is v(f) over its minimum,
``clock_over_ridge`` is f over the clock from which v rises."""

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

    ``ranges`` are of the features that were read, of which some profiles lacked ``partly_unread``;
    ``gpus`` are labels, and ``boards`` what they are in the catalogue.
    """

    ranges: Mapping[str, tuple[float, float]]
    partly_unread: tuple[str, ...]
    gpus: tuple[str, ...]
    boards: tuple[str, ...]

    @classmethod
    def of(cls, queries: Queries) -> "TrainingDomain":
        """Return the domain that ``queries`` span."""
        columns = dict(zip(DOMAIN_FEATURES, matrix(queries, DOMAIN_FEATURES).T, strict=True))
        columns = {name: each for name, each in columns.items() if not np.isnan(each).all()}
        return cls(
            ranges={n: (float(np.nanmin(c)), float(np.nanmax(c))) for n, c in columns.items()},
            partly_unread=tuple(name for name, each in columns.items() if np.isnan(each).any()),
            gpus=tuple(sorted({profile.gpu for profile in queries.profiles})),
            boards=tuple(sorted({profile.board for profile in queries.profiles})),
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

    @classmethod
    def of_state(cls, state: State) -> "TrainingDomain":
        """Return what was written as a state."""
        values = state.values
        return cls(
            ranges={name: (low, high) for name, (low, high) in values["ranges"].items()},
            partly_unread=tuple(values["partly_unread"]),
            gpus=tuple(values["gpus"]),
            boards=tuple(values["boards"]),
        )

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
