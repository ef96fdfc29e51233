"""The contract of a power model, and all that its members share."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from typing_extensions import override

from joulelab.core.process import one_thread
from joulelab.errors import ConfigError, MeasurementError
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.calibration import (
    LEAST_WIDENING,
    LEFT_OUT_AT,
    Calibration,
    Corrections,
    Interval,
)
from joulelab.power_models.decision import FixedClock
from joulelab.power_models.features import TrainingDomain
from joulelab.power_models.groups import group_folds, no_intervals
from joulelab.power_models.queries import Profile, Queries, Target, queries_of, scale
from joulelab.power_models.readers import data_hash
from joulelab.power_models.runs import Array, Index, Names, Pair, Runs
from joulelab.power_models.state import State, StoredModel, merged

Outside = Literal["widen", "refuse"]
"""What to do with a query outside the training domain."""

_CALIBRATION = "shared.calibration."
_MOST_WIDENING = 1.0
"""Intervals are doubled at most: groups that were held out lay outside of the others as well."""


class PowerModel(StoredModel):
    """Predicts power or time of applications at any clock from one profile of each.

    A member implements ``learn`` and ``answer`` and says in what attributes it keeps what it
    learned, sees :class:`Queries` and never a :class:`Runs`, and predicts power in watts or time
    over the time of the profile.

    Args:
        target: What to predict.
        seed: Of everything random in it.
        calibration_folds: Into how many folds applications are held out to learn how far
            predictions for unseen ones are off; 0 learns nothing, and gives no intervals.
        outside: Whether to refuse queries outside the training domain, or widen their intervals.
    """

    def __init__(
        self,
        target: Target = "power_w",
        *,
        seed: int = 0,
        calibration_folds: int = 5,
        outside: Outside = "widen",
    ) -> None:
        if target not in get_args(Target):
            raise ConfigError(f"target must be one of {get_args(Target)}, got {target!r}.")
        self.target: Target = target
        self.seed = seed
        self.calibration_folds = calibration_folds
        self.outside: Outside = outside
        self._domain: TrainingDomain | None = None
        self._calibration: Calibration | None = None
        self.corrections = Corrections()
        self.held_mhz: Mapping[Pair, float] = {}

    @property
    def domain(self) -> TrainingDomain:
        """What it was trained on; ConfigError before ``fit``."""
        if self._domain is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(runs).")
        return self._domain

    @property
    def highest_level(self) -> float:
        """Highest level of its intervals; 0 where it gives none."""
        return 0.0 if self._calibration is None else self._calibration.highest_level

    def settings(self) -> Mapping[str, Any]:
        """Return what else the constructor takes, as JSON can hold it."""
        return {}

    @one_thread()
    def fit(self, runs: Runs, groups: Names | None = None, *, profiled: Runs | None = None) -> Self:
        """Learn from ``runs``; returns itself.

        Args:
            runs: At least two applications at two clocks each.
            groups: For each run, the group that is held out as a whole for the intervals;
                ``None`` takes its application.
            profiled: Where profiles are taken from; ``None`` takes ``runs`` itself.

        Raises:
            ConfigError: If the table does not suffice.
        """
        runs.check_trainable()
        groups = runs.application if groups is None else groups
        queries, values = self._learnable(runs, profiled)
        self.taught(queries, values, groups)
        self._calibration = self._calibrated(queries, values, groups)
        self._data_hash = data_hash(runs)
        return self

    def taught(self, queries: Queries, values: Array, groups: Names) -> Self:
        """Learn, as :meth:`fit` does, from what was checked; returns itself without intervals."""
        self.corrections = Corrections()
        self._domain = TrainingDomain.of(queries)
        return self.learn(queries, values, groups)

    def predict(self, queries: Queries) -> Array:
        """Return watts or seconds for each query, shape ``(n,)``; never above a power limit.

        The ``findings`` of :attr:`domain` say what is outside of it.

        Raises:
            ConfigError: Before ``fit``, or if a query is outside and ``outside="refuse"``.
            MeasurementError: If the model has no finite, positive answer.
        """
        queries = queries.held_at(self.held_mhz)
        self._check_inside(queries)
        factor = np.exp(self.corrections.log_factor(queries))
        values = self.answer(queries) * factor * scale(queries, self.target)
        for bad in np.flatnonzero(~(np.isfinite(values) & (values > 0))):
            raise MeasurementError(
                f"A positive {self.target} is required, the model {self.name!r} gives "
                f"{values[bad]:g} for {queries.profiles[queries.profile[bad]].application!r} at "
                f"{queries.sm_clock_mhz[bad]:g} MHz."
            )
        limits_w = [profile.power_limit_w or np.inf for profile in queries.profiles]
        highest = queries.of_profiles(limits_w) if self.target == "power_w" else np.inf
        return np.minimum(values, highest)

    def fixed_clock(self, profile: Profile, objective: str) -> FixedClock | None:
        """Return what to trust more than the least predicted cost; by default nothing."""
        return None

    def predict_interval(self, queries: Queries, level: float = 0.9) -> Interval:
        """Return where measured values are expected; wider outside the training domain.

        ConfigError as ``predict``; or if too few groups were held out for ``level``.
        """
        queries = queries.held_at(self.held_mhz)
        widened = 1.0 + np.minimum(self.domain.excess(queries), _MOST_WIDENING)
        center, half = self.predict(queries), self._half_width(queries, level) * widened
        outside = self.domain.findings(queries)
        return Interval.around(center, half, level=level, outside=outside)

    def holding(self, held_mhz: Mapping[Pair, float]) -> Self:
        """Return a new model that knows at which clocks in MHz power limits held profiles."""
        aware = copy.copy(self)
        aware.held_mhz = {**self.held_mhz, **held_mhz}
        return aware

    def on_board(self, gpu: str, spec: GpuSpec) -> Self:
        """Return a new model that knows a board by what ``spec`` says; ConfigError if it cannot."""
        needed = "physics or stacked is required to know a board's calibration"
        raise ConfigError(f"{needed}, got {self.name!r}: train one, or leave the calibration out.")

    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points; this one stays as it is.

        One point of an application scales its predictions, two clocks also tilt them, and more
        draw near ones to them. On an untrained GPU, other applications take the mean scale. Raises
        ConfigError before ``fit``, or if a profile is missing.

        Args:
            anchors: The points.
            profiled: Where profiles are taken from; ``None`` takes ``anchors`` itself.
        """
        queries, values = self._learnable(anchors, profiled)
        self._check_inside(queries)
        log_error, adapted = np.log(values / self.answer(queries)), copy.copy(self)
        adapted.corrections = self.corrections.with_anchors(queries, log_error, self.domain.gpus)
        return adapted

    @abstractmethod
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        """Learn that ``queries`` have ``values``, watts or times over the profile's; return itself.

        Callers want ``fit``, which checks, calibrates and keeps the domain as well.
        """

    @abstractmethod
    def answer(self, queries: Queries) -> Array:
        """Return the values of ``queries``, in the unit of ``learn``."""

    def errors_after(self, ratios: tuple[float, ...], queries: Queries, values: Array) -> Array:
        """Return the logs of measured over predicted once each application is anchored.

        It is at ``ratios`` of its profile's clock; ``values`` are measured, as ``learn`` has them.

        Returns:
            Shape ``(n,)``; not a number at the anchors.
        """
        anchors = queries.nearest(ratios)
        errors = np.log(values / self.answer(queries))
        if not anchors.any():
            return errors
        found = Corrections().with_anchors(queries.select(anchors), errors[anchors], ())
        return np.where(anchors, np.nan, errors - found.log_factor(queries))

    def errors_left_out(
        self, queries: Queries, values: Array, groups: Names, num_folds: int
    ) -> tuple[Index, Array]:
        """Predict every group with a model that was not shown it, without and with anchors.

        Returns:
            The rows that were predicted, each as often as it was held out, and the logs of
            measured over predicted there after each of :data:`LEFT_OUT_AT`, shape ``(sets, n)``.
        """
        rows, errors = [], []
        for held_out in group_folds(groups, num_folds, self.seed):
            kept, fold = ~held_out, self.unfitted(calibration_folds=0)
            fold.taught(queries.select(kept), values[kept], groups[kept])
            asked, truth = queries.select(held_out), values[held_out]
            rows.append(np.flatnonzero(held_out))
            errors.append([fold.errors_after(ratios, asked, truth) for ratios in LEFT_OUT_AT])
        return np.concatenate(rows), np.concatenate(errors, axis=1)

    def fitted_beside(self, time: "PowerModel") -> None:
        """Settle what it shares with a model of time of the same table; by default nothing."""

    def _learnable(self, runs: Runs, profiled: Runs | None) -> tuple[Queries, Array]:
        """Return what ``runs`` ask and what was measured there, in the unit of ``learn``."""
        queries = queries_of(runs, profiled).held_at(self.held_mhz)
        measured = runs.power_w if self.target == "power_w" else runs.time_s
        return queries, measured / scale(queries, self.target)

    def _half_width(self, queries: Queries, level: float) -> Array:
        calibration = self._calibration
        if calibration is None:
            raise no_intervals(self.name, "applications")
        log_ratio = np.log(queries.clock_ratio)
        known = (0.0,) if self.target == "time_s" else ()  # profiles hold time, and power not
        half = np.empty(len(queries))
        for number, rows in queries.by_profile():
            profile = queries.profiles[number]
            correction = self.corrections.pairs.get(profile.pair)
            anchors = known if correction is None else correction.anchors
            wider = 1.0 if profile.gpu in self.domain.gpus else self._wider(profile)
            half[rows] = wider * calibration.half_width(level, log_ratio[rows], anchors)
        return half

    def _wider(self, profile: Profile) -> float:
        """Return by how much intervals are wider on a board that was not trained on."""
        return LEAST_WIDENING

    def _calibrated(self, queries: Queries, values: Array, groups: Names) -> Calibration | None:
        """Learn how far predictions are off for groups that were held out."""
        if self.calibration_folds < 2 or len(np.unique(groups)) < 3:
            return None
        rows, errors = self.errors_left_out(queries, values, groups, self.calibration_folds)
        return Calibration(
            group=groups[rows],
            log_ratio=np.log(queries.clock_ratio[rows]),
            log_error=errors[0],
            anchored_error=errors[1:],
        )

    def _check_inside(self, queries: Queries) -> None:
        findings = self.domain.findings(queries)  # always asked: it refuses what was not fitted
        if findings and self.outside == "refuse":
            raise ConfigError(
                f"Queries must be inside the training domain of {self.name!r}: {findings[0]} "
                'Train on more, or take outside="widen".'
            )

    @override
    def _shared(self) -> State:
        parts = merged(State.of(self.domain), self.corrections.state()).with_prefix("shared.")
        known = State() if self._calibration is None else State.of(self._calibration)
        held = [[*pair, clock_mhz] for pair, clock_mhz in self.held_mhz.items()]
        only = {"shared.held_mhz": held} if held else {}
        data = State(values={"shared.data_hash": self._data_hash, **only})
        return merged(data, parts, known.with_prefix(_CALIBRATION))

    @override
    def _take_shared(self, state: State) -> None:
        shared = state.prefixed("shared.")
        self._domain = TrainingDomain.of_state(shared)
        self.corrections = Corrections.of_state(shared)
        known = state.prefixed(_CALIBRATION).arrays
        self._calibration = Calibration.of_arrays(known) if known else None
        self._data_hash = shared.values["data_hash"]
        self.held_mhz = {(g, a): mhz for g, a, mhz in shared.values.get("held_mhz", ())}

    @override
    def _all_settings(self) -> dict[str, Any]:
        names = ("target", "seed", "calibration_folds", "outside")
        return {**{name: getattr(self, name) for name in names}, **self.settings()}

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(target={self.target!r}, seed={self.seed})"
