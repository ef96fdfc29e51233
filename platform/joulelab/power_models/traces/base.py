"""The contract of a trace model, and all that its members share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, get_args

import numpy as np

from joulelab.errors import ConfigError, MeasurementError
from joulelab.power_models.base import Outside
from joulelab.power_models.runs import Array
from joulelab.power_models.splits import group_folds
from joulelab.power_models.state import State, merged, read_state, whole_model, write_state
from joulelab.power_models.traces.encoding import Encoding
from joulelab.power_models.traces.fluctuation import Fluctuation
from joulelab.power_models.traces.load_trace import (
    LoadTrace,
    Schedule,
    check_alike,
    recordings_hash,
)

_MOST_WIDENING = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyForecast:
    """Energy of a schedule.

    Attributes:
        energy_j: Prediction.
        lower_j: Lower end of the interval.
        upper_j: Upper end.
        level: Share of unseen recordings that such intervals cover.
        outside: What of the schedule was not trained on; the interval was widened for it.
    """

    energy_j: float
    lower_j: float
    upper_j: float
    level: float
    outside: tuple[str, ...]


class TraceModel(ABC):
    """Predicts power over time from phases and activities.

    Args:
        seed: Of everything random in it.
        calibration_folds: Into how many folds recordings are held out to learn how far energies
            are off; 0 learns nothing, and gives no intervals.
        outside: Whether schedules outside of what was trained on are refused, or answered with a
            wider interval.
        power_limit_w: Power limit that predictions keep to; ``None`` where it is not known.
    """

    name: ClassVar[str]
    """Its name in the table of trace models."""

    def __init__(
        self,
        *,
        seed: int = 0,
        calibration_folds: int = 5,
        outside: Outside = "widen",
        power_limit_w: float | None = None,
    ) -> None:
        if outside not in get_args(Outside):
            raise ConfigError(f"outside must be one of {get_args(Outside)}, got {outside!r}.")
        if power_limit_w is not None and not 0.0 < power_limit_w < np.inf:
            raise ConfigError(f"power_limit_w must be positive, got {power_limit_w}.")
        self.seed = seed
        self.power_limit_w = power_limit_w
        self.calibration_folds = calibration_folds
        self.outside: Outside = outside
        self._encoding: Encoding | None = None
        self._fluctuation: Fluctuation | None = None
        self._log_errors: Array = np.empty(0)
        self._data_hash = ""

    @property
    def encoding(self) -> Encoding:
        """What it was trained on.

        Raises:
            ConfigError: Before ``fit``.
        """
        if self._encoding is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(traces).")
        return self._encoding

    @property
    def data_hash(self) -> str:
        """Name of the content of the recordings that it was trained on."""
        return self._data_hash

    def fit(self, traces: Sequence[LoadTrace]) -> Self:
        """Learn from recordings of equal steps and inputs; returns itself.

        Raises:
            ConfigError: If there are none, or they are not alike.
        """
        check_alike(traces)
        self._log_errors = self._calibrated(traces)
        self._encoding = Encoding.of([trace.schedule for trace in traces])
        self.learn(traces)
        self._fluctuation = self._residual_scatter(traces)
        self._data_hash = recordings_hash(traces)
        return self

    def predict(self, schedule: Schedule) -> Array:
        """Return the mean power expected in each step, in watts, shape ``(n,)``.

        Raises:
            ConfigError: Before ``fit``, if the schedule cannot be read, or if it is outside of
                what was trained on and ``outside="refuse"``.
            MeasurementError: If the model has no finite, positive answer.
        """
        self.encoding.check(schedule)
        findings = self.encoding.findings(schedule)
        if findings and self.outside == "refuse":
            raise ConfigError(
                f"Schedules must be like those that {self.name!r} was trained on: {findings[0]} "
                'Train on more, or take outside="widen".'
            )
        power_w = self.answer(schedule)
        bad = np.flatnonzero(~(np.isfinite(power_w) & (power_w > 0)))
        if len(bad):
            raise MeasurementError(
                f"Power must be positive, the model {self.name!r} gives {power_w[bad[0]]:g} W in "
                f"step {bad[0]}."
            )
        return self._limited(power_w)

    def predict_energy(self, schedule: Schedule, level: float = 0.9) -> EnergyForecast:
        """Return the energy of a schedule, with the interval that held-out recordings taught.

        Raises:
            ConfigError: As ``predict``; or if too few recordings were held out for ``level``.
        """
        energy_j = float(self.predict(schedule).sum() * schedule.step_s)
        widened = 1.0 + min(self.encoding.excess(schedule), _MOST_WIDENING)
        half = self._half_width(level) * widened
        return EnergyForecast(
            energy_j=energy_j,
            lower_j=energy_j * float(np.exp(-half)),
            upper_j=energy_j * float(np.exp(half)),
            level=level,
            outside=self.encoding.findings(schedule),
        )

    def sample(self, schedule: Schedule, *, seed: int = 0) -> Array:
        """Return one possible trace: the mean, and scatter as in training, in watts."""
        power_w = self.predict(schedule)
        if self._fluctuation is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(traces).")
        phases = self.encoding.phase_index(schedule)
        scatter = self._fluctuation.sample(phases, np.random.default_rng(seed))
        return np.asarray(power_w * np.exp(scatter))

    def save(self, folder: Path) -> None:
        """Write the model into ``folder`` as JSON and arrays; nothing is pickled."""
        about = State(
            values={
                "name": self.name,
                "settings": self._settings(),
                "data_hash": self._data_hash,
            },
            arrays={"log_errors": self._log_errors},
        )
        parts = [about, self.encoding.state().with_prefix("encoding.")]
        if self._fluctuation is not None:
            parts.append(self._fluctuation.state().with_prefix("fluctuation."))
        write_state(folder, merged(*parts, self._state().with_prefix("member.")))

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
            model._data_hash = str(state.values.get("data_hash", ""))
            model._log_errors = state.arrays["log_errors"]
            model._encoding = Encoding.of_state(state.prefixed("encoding."))
            model._fluctuation = Fluctuation.of_state(state.prefixed("fluctuation."))
            model._restore(state.prefixed("member."))
        return model

    def unfitted(self, *, calibration_folds: int) -> Self:
        """Return a model with the same settings otherwise, that has learned nothing."""
        return type(self)(
            seed=self.seed,
            calibration_folds=calibration_folds,
            outside=self.outside,
            power_limit_w=self.power_limit_w,
        )

    @abstractmethod
    def learn(self, traces: Sequence[LoadTrace]) -> None:
        """Learn from traces; :attr:`encoding` is known. Callers want ``fit``."""

    @abstractmethod
    def answer(self, schedule: Schedule) -> Array:
        """Return the mean power in each step."""

    @abstractmethod
    def _state(self) -> State:
        """Return what was learned."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Take over what ``_state`` returned; :attr:`encoding` is known."""

    def _limited(self, power_w: Array) -> Array:
        return power_w if self.power_limit_w is None else np.minimum(power_w, self.power_limit_w)

    def _settings(self) -> dict[str, int | str | float | None]:
        return {
            "seed": self.seed,
            "calibration_folds": self.calibration_folds,
            "outside": self.outside,
            "power_limit_w": self.power_limit_w,
        }

    def _calibrated(self, traces: Sequence[LoadTrace]) -> Array:
        """Return log of measured over predicted energy of recordings that were held out."""
        names = np.array([trace.name for trace in traces])
        if self.calibration_folds < 2 or len(set(names.tolist())) < 3:
            return np.empty(0)
        errors = np.empty(len(traces))
        for held_out in group_folds(names, self.calibration_folds, self.seed):
            kept = [trace for trace, out in zip(traces, held_out, strict=True) if not out]
            fold = self.unfitted(calibration_folds=0).fit(kept)
            fold.outside = "widen"
            for i in np.flatnonzero(held_out).tolist():
                predicted_j = fold.predict(traces[i].schedule).sum() * traces[i].schedule.step_s
                errors[i] = np.log(traces[i].energy_j / predicted_j)
        largest = [np.abs(errors[names == name]).max() for name in dict.fromkeys(names.tolist())]
        return np.array(largest)

    def _half_width(self, level: float) -> float:
        """Return the conformal half width: one more recording may err more than all of these."""
        if not 0.0 < level < 1.0:
            raise ConfigError(f"level must be between 0 and 1, got {level}.")
        num = len(self._log_errors)
        rank = int(np.ceil(level * (num + 1) - 1e-9))
        if rank > num:
            raise ConfigError(
                f"An interval of level {level:g} needs calibration_folds >= 2 and at least "
                f"{int(np.ceil(level / (1 - level) - 1e-9))} recordings, got {num} held out."
            )
        return float(np.sort(self._log_errors)[rank - 1])

    def _residual_scatter(self, traces: Sequence[LoadTrace]) -> Fluctuation:
        expected_w = [self._limited(self.answer(each.schedule)) for each in traces]
        residuals = [
            np.log(each.power_w / power_w) for each, power_w in zip(traces, expected_w, strict=True)
        ]
        phases = [self.encoding.phase_index(each.schedule) for each in traces]
        return Fluctuation.of(residuals, phases, len(self.encoding.phases))
