"""Traces of power with what ran meanwhile, in steps of equal length."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError
from joulelab.power_models.runs import Array, Index, Names
from joulelab.power_models.state import State

CLOCK = "clock_ratio"
"""The one input that is no activity: the SM clock over the highest one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """What runs in each of ``n`` steps."""

    step_s: float
    phase: Names  # name of what runs; shape (n,)
    # How busy units are, 0 to 1, by name; each of shape (n,). "clock_ratio" is the SM clock over
    # the GPU's highest.
    inputs: Mapping[str, Array]

    def __post_init__(self) -> None:
        if not 0.0 < self.step_s < np.inf:
            raise ConfigError(f"step_s must be positive, got {self.step_s}.")
        if self.phase.ndim != 1 or not len(self.phase):
            raise ConfigError(f"phase must name at least one step, got shape {self.phase.shape}.")
        for name, values in self.inputs.items():
            if values.shape != self.phase.shape:
                raise ConfigError(
                    f"Input {name!r} must have a value for each of the {len(self)} steps, got "
                    f"shape {values.shape}."
                )
            bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
            if len(bad):
                raise ConfigError(
                    f"Input {name!r} must be a share from 0 to 1, step {bad[0]} has "
                    f"{values[bad[0]]:g}."
                )

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def duration_s(self) -> float:
        """Length of all steps."""
        return self.step_s * len(self)

    def part(self, start: int, stop: int) -> "Schedule":
        """Return the steps from ``start`` up to ``stop``."""
        inputs = {name: values[start:stop] for name, values in self.inputs.items()}
        return Schedule(step_s=self.step_s, phase=self.phase[start:stop], inputs=inputs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadTrace:
    """A recording: what ran, and what it drew, as the mean power in each step, shape ``(n,)``.

    Parts of one recording share its ``name`` and are held out together.
    """

    name: str
    schedule: Schedule
    power_w: Array

    def __post_init__(self) -> None:
        if self.power_w.shape != self.schedule.phase.shape:
            raise ConfigError(
                f"Trace {self.name!r} must have a power for each of its {len(self.schedule)} "
                f"steps, got shape {self.power_w.shape}."
            )
        bad = np.flatnonzero(~(np.isfinite(self.power_w) & (self.power_w > 0)))
        if len(bad):
            raise ConfigError(
                f"power_w of trace {self.name!r} must be positive, step {bad[0]} has "
                f"{self.power_w[bad[0]]:g}."
            )

    @property
    def energy_j(self) -> float:
        """Energy of the whole recording."""
        return float(self.power_w.sum() * self.schedule.step_s)


def step_means(trace: PowerTrace, start_s: float, num_steps: int, step_s: float) -> Array:
    """Return the mean power of ``trace`` in each step from ``start_s`` on, shape ``(n,)``.

    Raises TraceCoverageError if the trace does not span all steps.
    """
    edges_s = start_s + step_s * np.arange(num_steps + 1)
    last_s = trace.t_s[-1]  # which a sum of steps may miss by a rounding
    edges_s = np.where(np.abs(edges_s - last_s) < 1e-6 * step_s, last_s, edges_s)
    return np.array([trace.energy_j(float(a), float(b)) / step_s for a, b in pairwise(edges_s)])


def check_alike(traces: Sequence[LoadTrace]) -> None:
    """Check that traces can be learned from together.

    Raises ConfigError if there are none, or their steps or inputs differ.
    """
    if not traces:
        raise ConfigError("At least one trace is required, got none.")
    first = traces[0].schedule
    for trace in traces:
        schedule = trace.schedule
        if abs(schedule.step_s / first.step_s - 1.0) > 1e-6:
            raise ConfigError(
                f"All traces must have steps of one length, {trace.name!r} has "
                f"{schedule.step_s:g} s and {traces[0].name!r} {first.step_s:g} s."
            )
        if set(schedule.inputs) != set(first.inputs):
            raise ConfigError(
                f"All traces must have the same inputs, {trace.name!r} has "
                f"{sorted(schedule.inputs)} and {traces[0].name!r} {sorted(first.inputs)}."
            )


def recordings_hash(traces: Sequence[LoadTrace]) -> str:
    """Return twelve hex digits that name the content of recordings, whatever their order."""
    parts = []
    for trace in traces:
        schedule = trace.schedule
        columns = [trace.power_w, *(schedule.inputs[name] for name in sorted(schedule.inputs))]
        numbers = " ".join(f"{value:.9g}" for column in columns for value in column)
        phases = " ".join(schedule.phase.tolist())
        parts.append(f"{trace.name}|{schedule.step_s:.9g}|{phases}|{numbers}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:12]


_LEAST_SPAN = 0.25
_SLACK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What was trained on, with the ranges of the inputs, and how schedules become numbers."""

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

        Raises ConfigError if its steps are of another length, or an input is missing.
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

    def excess(self, schedule: Schedule) -> float:
        """Return how far a schedule is outside: 0 inside, 1 a whole range or an unknown phase."""
        unknown = float((self.phase_index(schedule) < 0).any())
        return max(unknown, *(span for span, _ in self._beyond(schedule).values()), 0.0)

    def findings(self, schedule: Schedule) -> tuple[str, ...]:
        """Say what is outside, one sentence each."""
        unknown = sorted(set(schedule.phase.tolist()) - set(self.phases))
        found = [f"Phase {name!r} was not trained on." for name in unknown]
        for name, (_, worst) in self._beyond(schedule).items():
            low, high = self.ranges[name]
            found.append(f"{name} is {worst:.4g}; trained on {low:.4g} to {high:.4g}.")
        return tuple(found)

    def _beyond(self, schedule: Schedule) -> dict[str, tuple[float, float]]:
        """Return of each input that is outside by how many ranges, and its worst value."""
        found = {}
        for name, (low, high) in self.ranges.items():
            values = schedule.inputs[name]
            over = np.maximum(low - values, values - high)
            spans = float(over.max()) / max(high - low, _LEAST_SPAN)
            if spans > _SLACK:
                found[name] = spans, float(values[np.argmax(over)])
        return found

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
