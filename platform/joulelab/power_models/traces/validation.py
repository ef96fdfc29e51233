"""Validation of trace models: whole recordings are held out, and the baseline is in the table."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.traces.load_trace import LoadTrace
from joulelab.power_models.traces.model import TraceModel


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

        Raises:
            ConfigError: If there are too few recordings for ``level``.
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

    Recordings with one name are held out together and count as one.

    Raises:
        ConfigError: If there are fewer than two recordings.
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
