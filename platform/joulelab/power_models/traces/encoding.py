"""Schedules as numbers, and whether they are like those that were trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array, Index
from joulelab.power_models.state import State
from joulelab.power_models.traces.load_trace import CLOCK, Schedule

_LEAST_SPAN = 0.25
_SLACK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What was trained on, and how schedules become numbers.

    Attributes:
        step_s: Length of a step.
        phases: Names of the phases.
        ranges: Lowest and highest value of each input.
    """

    step_s: float
    phases: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, schedules: Sequence[Schedule]) -> "Encoding":
        """Return the encoding of schedules with the same inputs."""
        names = list(schedules[0].inputs)
        columns = {n: np.concatenate([each.inputs[n] for each in schedules]) for n in names}
        return cls(
            step_s=schedules[0].step_s,
            phases=tuple(sorted({name for each in schedules for name in each.phase.tolist()})),
            ranges={n: (float(c.min()), float(c.max())) for n, c in columns.items()},
        )

    def check(self, schedule: Schedule) -> None:
        """Check that a schedule can be read at all.

        Raises:
            ConfigError: If its steps are of another length, or an input is missing.
        """
        if abs(schedule.step_s / self.step_s - 1.0) > 1e-6:
            raise ConfigError(
                f"Steps must be {self.step_s:g} s long as in training, got {schedule.step_s:g} s."
            )
        if set(schedule.inputs) != set(self.ranges):
            raise ConfigError(
                f"Inputs must be {sorted(self.ranges)}, got {sorted(schedule.inputs)}."
            )

    def phase_index(self, schedule: Schedule) -> Index:
        """Return the number of each step's phase; -1 for one that was never trained on."""
        place = {name: i for i, name in enumerate(self.phases)}
        return np.array([place.get(name, -1) for name in schedule.phase.tolist()], dtype=np.intp)

    def physical(self, schedule: Schedule) -> Array:
        """Return what power follows in physics, shape ``(n, k)``.

        With a clock: activities times it, for what switches, and times its square, for the
        voltage that rises with it, and the clock itself; without one the activities.
        """
        activities = [schedule.inputs[name] for name in self.ranges if name != CLOCK]
        clock = schedule.inputs.get(CLOCK)
        if clock is None:
            return np.stack(activities, axis=1)
        products = [values * factor for values in activities for factor in (clock, clock**2)]
        return np.stack([*products, clock], axis=1)

    def features(self, schedule: Schedule) -> Array:
        """Return what a network reads, shape ``(n, k)``: inputs, phase, time in the phase.

        Inputs go from -1 to 1 over the range of training and are cut there.
        """
        columns = []
        for name, (low, high) in self.ranges.items():
            values = np.clip(schedule.inputs[name], low, high)
            columns.append(2 * (values - low) / max(high - low, 1e-9) - 1)
        index = self.phase_index(schedule)
        columns += [(index == i).astype(float) for i in range(len(self.phases))]
        columns.append(np.exp(-_time_in_phase_s(schedule) / 0.3))
        return np.stack(columns, axis=1)

    def excess(self, schedule: Schedule) -> float:
        """Return how far a schedule is outside: 0 inside, 1 a whole range or an unknown phase."""
        beyond = [float((self.phase_index(schedule) < 0).any())]
        for name, (low, high) in self.ranges.items():
            values = schedule.inputs[name]
            over = float(np.maximum(low - values, values - high).max()) / _span(low, high)
            beyond.append(over if over > _SLACK else 0.0)
        return max(beyond)

    def findings(self, schedule: Schedule) -> tuple[str, ...]:
        """Say what is outside, one sentence each."""
        unknown = sorted(set(schedule.phase.tolist()) - set(self.phases))
        found = [f"Phase {name!r} was not trained on." for name in unknown]
        for name, (low, high) in self.ranges.items():
            values = schedule.inputs[name]
            over = np.maximum(low - values, values - high)
            if over.max() > _SLACK * _span(low, high):
                worst = values[np.argmax(over)]
                found.append(f"{name} is {worst:.4g}; trained on {low:.4g} to {high:.4g}.")
        return tuple(found)

    def state(self) -> State:
        """Return it as a state."""
        return State(
            values={
                "step_s": self.step_s,
                "phases": list(self.phases),
                "ranges": [[name, *ends] for name, ends in self.ranges.items()],
            }
        )

    @classmethod
    def of_state(cls, state: State) -> "Encoding":
        """Return what :meth:`state` wrote."""
        values = state.values
        return cls(
            step_s=values["step_s"],
            phases=tuple(values["phases"]),
            ranges={name: (low, high) for name, low, high in values["ranges"]},
        )


def _span(low: float, high: float) -> float:
    return max(high - low, _LEAST_SPAN)


def _time_in_phase_s(schedule: Schedule) -> Array:
    changed = np.flatnonzero(np.append(True, schedule.phase[1:] != schedule.phase[:-1]))
    number = np.arange(len(schedule))
    began = changed[np.searchsorted(changed, number, side="right") - 1]
    return np.asarray((number - began) * schedule.step_s)
