"""The contract of a power model, and all that its members share."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.power_models.calibration import Calibration
from joulelab.power_models.correction import Corrections
from joulelab.power_models.domain import TrainingDomain
from joulelab.power_models.interval import Interval
from joulelab.power_models.model_state import shared_of, shared_state
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.readers import data_hash
from joulelab.power_models.runs import Array, Names, Runs
from joulelab.power_models.splits import group_folds
from joulelab.power_models.state import State, merged, read_state, whole_model, write_state
from joulelab.power_models.targets import Target, check_target, measured, scale

Outside = Literal["widen", "refuse"]
"""What to do with a query outside the training domain."""

_MOST_WIDENING = 1.0
"""Intervals are doubled at most: groups that were held out lay outside of the others as well."""


class PowerModel(ABC):
    """Predicts power or time of applications at any clock from one profile of each.

    A member implements ``learn``, ``answer``, ``_state`` and ``_restore``, sees
    :class:`Queries` and never a :class:`Runs`, and predicts power in watts or time over the time
    of the profile.

    Args:
        target: What to predict.
        seed: Of everything random in it.
        calibration_folds: Into how many folds applications are held out to learn how far
            predictions for unseen ones are off; 0 learns nothing, and gives no intervals.
        outside: Whether queries outside the training domain are refused, or answered with a
            wider interval.
    """

    name: ClassVar[str]
    """Its name in the table of models."""

    def __init__(
        self,
        target: Target = "power_w",
        *,
        seed: int = 0,
        calibration_folds: int = 5,
        outside: Outside = "widen",
    ) -> None:
        check_target(target)
        self.target: Target = target
        self.seed = seed
        self.calibration_folds = calibration_folds
        self.outside: Outside = outside
        self._domain: TrainingDomain | None = None
        self._calibration: Calibration | None = None
        self.corrections = Corrections()
        self._data_hash = ""

    @property
    def domain(self) -> TrainingDomain:
        """What it was trained on.

        Raises:
            ConfigError: Before ``fit``.
        """
        if self._domain is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(runs).")
        return self._domain

    @property
    def data_hash(self) -> str:
        """Name of the content of the table that it was trained on."""
        return self._data_hash

    def settings(self) -> Mapping[str, Any]:
        """Return what else the constructor takes, as JSON can hold it."""
        return {}

    def fit(self, runs: Runs, groups: Names | None = None, *, profiled: Runs | None = None) -> Self:
        """Learn from ``runs``.

        Args:
            runs: At least two applications at two clocks each.
            groups: For each run, the group that is held out as a whole for the intervals;
                ``None`` takes its application.
            profiled: Where profiles are taken from; ``None`` takes ``runs`` itself.

        Returns:
            Itself.

        Raises:
            ConfigError: If the table does not suffice.
        """
        runs.check_trainable()
        groups = runs.application if groups is None else groups
        queries = queries_of(runs, profiled)
        values = measured(runs, self.target) / scale(queries, self.target)
        self.corrections = Corrections()
        self._calibration = self._calibrated(queries, values, groups)
        self.learn(queries, values, groups)
        self._domain = TrainingDomain.of(queries)
        self._data_hash = data_hash(runs)
        return self

    def predict(self, queries: Queries) -> Array:
        """Return watts or seconds for each query, shape ``(n,)``; never above a power limit.

        What is outside of :attr:`domain` is told by its ``findings``.

        Raises:
            ConfigError: Before ``fit``, or if a query is outside and ``outside="refuse"``.
            MeasurementError: If the model has no finite, positive answer.
        """
        self._check_inside(queries)
        factor = np.exp(self.corrections.log_factor(queries))
        values = self.answer(queries) * factor * scale(queries, self.target)
        if not (np.isfinite(values) & (values > 0)).all():
            bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))[0]
            raise MeasurementError(
                f"A positive {self.target} is required, the model {self.name!r} gives "
                f"{values[bad]:g} for {queries.profiles[queries.profile[bad]].application!r} at "
                f"{queries.sm_clock_mhz[bad]:g} MHz."
            )
        return self._limited(queries, values)

    def predict_interval(self, queries: Queries, level: float = 0.9) -> Interval:
        """Return where measured values are expected; wider outside the training domain.

        Raises:
            ConfigError: As ``predict``; or if too few groups were held out for ``level``.
        """
        center = self.predict(queries)
        widened = 1.0 + np.minimum(self.domain.excess(queries), _MOST_WIDENING)
        half = self._half_width(queries, level) * widened
        return Interval(
            lower=center * np.exp(-half),
            upper=center * np.exp(half),
            level=level,
            outside=self.domain.findings(queries),
        )

    def adapt(self, anchors: Runs, *, profiled: Runs | None = None) -> Self:
        """Return a new model that knows some measured points; this one stays as it is.

        One point of an application scales its predictions, two clocks also tilt them, and more
        draw near ones to them. On an untrained GPU, other applications take the mean scale.

        Args:
            anchors: The points.
            profiled: Where profiles are taken from; ``None`` takes ``anchors`` itself.

        Raises:
            ConfigError: Before ``fit``, or if a profile is missing.
        """
        queries = queries_of(anchors, profiled)
        values = measured(anchors, self.target) / scale(queries, self.target)
        self._check_inside(queries)
        log_error = np.log(values / self.answer(queries))
        adapted = copy.copy(self)
        adapted.corrections = self.corrections.with_anchors(queries, log_error, self.domain.gpus)
        return adapted

    def save(self, folder: Path) -> None:
        """Write the model into ``folder`` in native formats; nothing is pickled."""
        shared = shared_state(
            self.domain, self.corrections, self._calibration, self._data_hash
        ).with_prefix("shared.")
        about = State(values={"name": self.name, "settings": self._all_settings()})
        folder.mkdir(parents=True, exist_ok=True)
        self._save_native(folder)
        write_state(folder, merged(about, shared, self._state().with_prefix("member.")))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the model that ``save`` wrote.

        Raises:
            ConfigError: If the folder does not hold a whole model of this kind.
        """
        state = read_state(folder)
        if state.values.get("name") != cls.name:
            raise ConfigError(
                f"A model {cls.name!r} is required, got {state.values.get('name')!r}."
            )
        with whole_model(folder):
            model = cls(**state.values["settings"])
            shared = shared_of(state.prefixed("shared."))
            model._domain, model.corrections, model._calibration, model._data_hash = shared
            model._restore(state.prefixed("member."))
            model._load_native(folder)
        return model

    def unfitted(self, **changes: Any) -> Self:
        """Return a model with the same settings, but for ``changes``, that has learned nothing."""
        return type(self)(**{**self._all_settings(), **changes})

    @abstractmethod
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        """Learn that ``queries`` have ``values`` (watts, or time over that of the profile).

        Returns:
            Itself. Callers want ``fit``, which checks, calibrates and keeps the domain as well.
        """

    @abstractmethod
    def answer(self, queries: Queries) -> Array:
        """Return the values of ``queries``, in the unit of ``learn``."""

    @abstractmethod
    def _state(self) -> State:
        """Return what was learned and is no native file."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Take over what ``_state`` returned."""

    def _save_native(self, folder: Path) -> None:
        """Write what has a format of its own, such as a booster's JSON."""

    def _load_native(self, folder: Path) -> None:
        """Read what ``_save_native`` wrote."""

    def _known_calibration(self) -> Calibration:
        if self._calibration is None:
            raise ConfigError(
                f"Intervals of {self.name!r} need calibration_folds >= 2 and at least 3 "
                f"applications when it is fitted, got calibration_folds={self.calibration_folds}."
            )
        return self._calibration

    def _half_width(self, queries: Queries, level: float) -> Array:
        calibration = self._known_calibration()
        log_ratio = np.log(queries.clock_ratio)
        known = (0.0,) if self.target == "time_s" else ()  # profiles tell time, and power not
        half = np.empty(len(queries))
        for number, profile in enumerate(queries.profiles):
            rows = queries.profile == number
            correction = self.corrections.pairs.get(profile.pair)
            anchors = known if correction is None else correction.anchors
            half[rows] = calibration.half_width(level, log_ratio[rows], anchors)
        return half

    def _calibrated(self, queries: Queries, values: Array, groups: Names) -> Calibration | None:
        """Predict every group with a model that was not shown it."""
        if self.calibration_folds < 2 or len(np.unique(groups)) < 3:
            return None
        log_error = np.empty(len(queries))
        for held_out in group_folds(groups, self.calibration_folds, self.seed):
            kept = ~held_out
            fold = self.unfitted(calibration_folds=0).learn(
                queries.select(kept), values[kept], groups[kept]
            )
            asked = queries.select(held_out)
            log_error[held_out] = np.log(values[held_out] / fold.answer(asked))
        return Calibration(
            group=groups,
            pair=queries.profile,
            log_ratio=np.log(queries.clock_ratio),
            log_error=log_error,
        )

    def _check_inside(self, queries: Queries) -> None:
        if self.outside == "refuse":
            findings = self.domain.findings(queries)
            if findings:
                raise ConfigError(
                    f"Queries must be inside the training domain of {self.name!r}: {findings[0]} "
                    'Train on more, or take outside="widen".'
                )
        elif self._domain is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(runs).")

    def _limited(self, queries: Queries, values: Array) -> Array:
        if self.target != "power_w":
            return values
        limits = [profile.power_limit_w or np.inf for profile in queries.profiles]
        return np.minimum(values, queries.of_profiles(limits))

    def _all_settings(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "seed": self.seed,
            "calibration_folds": self.calibration_folds,
            "outside": self.outside,
            **self.settings(),
        }

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(target={self.target!r}, seed={self.seed})"
