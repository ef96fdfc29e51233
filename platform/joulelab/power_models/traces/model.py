"""The trace model: power over time from phases, energy with its interval; and its validation."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError, MeasurementError
from joulelab.power_models.base import Outside
from joulelab.power_models.groups import group_folds, highest_level, no_intervals
from joulelab.power_models.runs import Array
from joulelab.power_models.state import State, StoredModel, merged
from joulelab.power_models.traces.load_trace import (
    Encoding,
    LoadTrace,
    Schedule,
    check_alike,
    recordings_hash,
)
from joulelab.power_models.traces.part_errors import PartErrors
from joulelab.power_models.traces.state_machine import Fluctuation, Levels

_MOST_WIDENING = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyForecast:
    """Energy of a schedule, with an interval that covers ``level`` of unseen recordings.

    ``outside`` is what of the schedule was not trained on; the interval was widened for it.
    """

    energy_j: float
    lower_j: float
    upper_j: float
    level: float
    outside: tuple[str, ...]


class TraceModel(StoredModel):
    """State machine x AR(1): levels by phase, changes with a lag, and scatter with a memory.

    Args:
        seed: Of the deal of recordings into folds.
        calibration_folds: Into how many folds recordings are held out to learn how far energies
            are off; 0 learns nothing, and gives no intervals.
        outside: Whether schedules outside of what was trained on are refused, or answered with a
            wider interval.
        power_limit_w: Power limit that predictions keep to; ``None`` where it is not known.
    """

    name: ClassVar[str] = "state_machine_ar1"

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
        self._levels: Levels
        self._fluctuation: Fluctuation
        self._errors: PartErrors | None = None

    @property
    def encoding(self) -> Encoding:
        """What it was trained on.

        Raises ConfigError before ``fit``.
        """
        if self._encoding is None:
            raise ConfigError(f"The model {self.name!r} must be fitted first: call fit(traces).")
        return self._encoding

    @property
    def highest_level(self) -> float:
        """Highest level of its intervals; 0 where it gives none."""
        return 0.0 if self._errors is None else highest_level(self._errors.recording)

    def fit(self, traces: Sequence[LoadTrace]) -> Self:
        """Learn from recordings of equal steps and inputs; returns itself.

        Raises ConfigError if there are none, or they are not alike.
        """
        check_alike(traces)
        self._errors = self._calibrated(traces)
        self._encoding = Encoding.of([trace.schedule for trace in traces])
        self._levels = Levels.of(traces, self._encoding)
        residuals = [np.log(each.power_w / self._expected_w(each.schedule)) for each in traces]
        phases = [self.encoding.phase_index(each.schedule) for each in traces]
        self._fluctuation = Fluctuation.of(residuals, phases, len(self.encoding.phases))
        self._data_hash = recordings_hash(traces)
        return self

    def predict(self, schedule: Schedule) -> Array:
        """Return the mean power expected in each step, in watts, shape ``(n,)``.

        Raises ConfigError before ``fit``, if the schedule cannot be read, or if it is outside of
        what was trained on and ``outside="refuse"``; MeasurementError if the model has no finite,
        positive answer.
        """
        self.encoding.check(schedule)
        findings = self.encoding.findings(schedule)
        if findings and self.outside == "refuse":
            raise ConfigError(
                f"Schedules must be like those that {self.name!r} was trained on: {findings[0]} "
                'Train on more, or take outside="widen".'
            )
        power_w = self._expected_w(schedule)
        bad = np.flatnonzero(~(np.isfinite(power_w) & (power_w > 0)))
        if len(bad):
            raise MeasurementError(
                f"Power must be positive, the model {self.name!r} gives {power_w[bad[0]]:g} W in "
                f"step {bad[0]}."
            )
        return power_w

    def predict_energy(self, schedule: Schedule, level: float = 0.9) -> EnergyForecast:
        """Return the energy of a schedule, with the interval that held-out recordings taught.

        A schedule shorter than those has the interval of parts of them, which err more.

        Raises ConfigError as ``predict``; or if too few recordings were held out for ``level``.
        """
        energy_j = float(self.predict(schedule).sum() * schedule.step_s)
        widened = 1.0 + min(self.encoding.excess(schedule), _MOST_WIDENING)
        half = self._half_width(level, len(schedule)) * widened
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
        phases = self.encoding.phase_index(schedule)
        scatter = self._fluctuation.sample(phases, np.random.default_rng(seed))
        return np.asarray(power_w * np.exp(scatter))

    @override
    def _state(self) -> State:
        return State.of(self._levels, without=("encoding",))

    @override
    def _restore(self, state: State) -> None:
        self._levels = Levels(encoding=self.encoding, **state.everything)

    @override
    def _shared(self) -> State:
        return merged(
            State(values={"data_hash": self._data_hash}),
            (State() if self._errors is None else State.of(self._errors)).with_prefix("errors."),
            self.encoding.state().with_prefix("encoding."),
            State.of(self._fluctuation).with_prefix("fluctuation."),
        )

    @override
    def _take_shared(self, state: State) -> None:
        self._data_hash = str(state.values.get("data_hash", ""))
        errors = state.prefixed("errors.").arrays
        self._errors = PartErrors(**errors) if errors else None
        self._encoding = Encoding.of_state(state.prefixed("encoding."))
        self._fluctuation = Fluctuation(**state.prefixed("fluctuation.").everything)

    @override
    def _all_settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "calibration_folds": self.calibration_folds,
            "outside": self.outside,
            "power_limit_w": self.power_limit_w,
        }

    def _expected_w(self, schedule: Schedule) -> Array:
        power_w = self._levels.power_w(schedule)
        return power_w if self.power_limit_w is None else np.minimum(power_w, self.power_limit_w)

    def _calibrated(self, traces: Sequence[LoadTrace]) -> PartErrors | None:
        """Return how far energies are off for recordings, and parts of them, that are held out."""
        names = np.array([trace.name for trace in traces])
        if self.calibration_folds < 2 or len(set(names.tolist())) < 3:
            return None
        held_out = []
        for out in group_folds(names, self.calibration_folds, self.seed):
            kept = [trace for trace, is_out in zip(traces, out, strict=True) if not is_out]
            fold = self.unfitted(calibration_folds=0, outside="widen").fit(kept)
            held_out += [(traces[i], fold.predict) for i in np.flatnonzero(out).tolist()]
        return PartErrors.of(held_out)

    def _half_width(self, level: float, num_steps: int) -> float:
        """Return the conformal half width: one more recording may err more than all of these."""
        if self._errors is None:
            raise no_intervals(self.name, "recordings")
        return self._errors.half_width(level, num_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceScores:
    """Scores of one model on recordings that it was not shown.

    ``energy_error`` is relative and signed, by recording; ``power_mape`` the median over
    recordings of the mean absolute relative error of their steps; ``fit_s`` the longest time of a
    fit, in seconds of one core.
    """

    energy_error: Mapping[str, float]
    power_mape: float
    fit_s: float

    @property
    def median(self) -> float:
        """Median absolute error of the energy."""
        return float(np.median(np.abs(list(self.energy_error.values()))))

    @property
    def mean(self) -> float:
        """Mean absolute error of the energy."""
        return float(np.mean(np.abs(list(self.energy_error.values()))))

    @property
    def worst(self) -> tuple[str, float]:
        """The recording that is predicted worst, and its absolute error."""
        name = max(self.energy_error, key=lambda each: abs(self.energy_error[each]))
        return name, abs(self.energy_error[name])

    def coverage(self, level: float) -> float:
        """Return the share of recordings inside intervals that the other ones' errors give.

        Raises ConfigError if there are too few recordings for ``level``.
        """
        errors = np.abs(np.log1p(list(self.energy_error.values())))
        rank = int(np.ceil(level * len(errors) - 1e-9))
        if not 0 < rank <= len(errors) - 1:
            raise ConfigError(
                f"Coverage at level {level:g} needs more recordings, got {len(errors)}."
            )
        others = [np.sort(np.delete(errors, i))[rank - 1] for i in range(len(errors))]
        return float(np.mean(errors <= others))


def leave_one_trace_out(make: Callable[[], TraceModel], traces: Sequence[LoadTrace]) -> TraceScores:
    """Predict every recording with a model that was shown all others.

    Recordings with one name are held out together and count as one. Raises ConfigError if there are
    fewer than two recordings.
    """
    names = list(dict.fromkeys(trace.name for trace in traces))
    if len(names) < 2:
        raise ConfigError(f"At least two recordings are required to hold one out, got {names}.")
    energy_error, step_errors, fit_s = {}, [], 0.0
    for name in names:
        held_out = [trace for trace in traces if trace.name == name]
        start_s = time.process_time()
        model = make().fit([trace for trace in traces if trace.name != name])
        fit_s = max(fit_s, time.process_time() - start_s)
        predicted = [model.predict(trace.schedule) for trace in held_out]
        pairs = list(zip(held_out, predicted, strict=True))
        energy_j = sum(float(p.sum()) * t.schedule.step_s for t, p in pairs)
        energy_error[name] = energy_j / sum(trace.energy_j for trace in held_out) - 1.0
        step_errors.append(np.mean(np.concatenate([np.abs(p / t.power_w - 1) for t, p in pairs])))
    return TraceScores(
        energy_error=energy_error, power_mape=float(np.median(step_errors)), fit_s=fit_s
    )
