"""Energy of an interval from a counter that ticks, or from power samples, with its uncertainty."""

import numpy as np

from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding
from joulelab.core.ticks import CounterPolls, find_ticks
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, TraceCoverageError

_FROZEN_TICKS = 10
_FROZEN_S = 1.0
_FEWEST_TRIPLES = 3
_RESOLUTION_J = 1e-3  # smallest step of the counter's value, NVML's


class EnergyCounter:
    """The counter's value over time, interpolated between its ticks.

    Args:
        polls: Reads of the counter. Where it decreased, only what follows the last decrease
            is used, and :meth:`findings` tells of it.
        tick_s: Bounds of the time between its ticks, in seconds, as known from earlier; ``None`` if
            it is not.
    """

    def __init__(
        self,
        polls: CounterPolls,
        *,
        tick_s: tuple[float, float] | None = None,
    ) -> None:
        self._polls = polls
        self._resets = 1 + np.flatnonzero(np.diff(polls.energy_j) < 0)
        first = int(self._resets[-1]) if self._resets.size else 0
        self.ticks = find_ticks(
            CounterPolls(
                before_s=polls.before_s[first:],
                after_s=polls.after_s[first:],
                energy_j=polls.energy_j[first:],
            ),
            known_s=tick_s,
        )

    def window(self, start_s: float, stop_s: float, *, work: float = 0.0) -> EnergyWindow:
        """Return the energy between two instants, with its standard uncertainty.

        Three causes add up at each edge: when the ticks around it came, how power moved
        between them, and the counter's resolution.

        Args:
            start_s: Start, on the clock of the polls.
            stop_s: Stop, after ``start_s``.
            work: Units of work done in between.

        Raises:
            ConfigError: If ``stop_s <= start_s``.
            TraceCoverageError: If there is no tick on both sides of both edges:
                extrapolating would invent energy that nobody measured.
        """
        if stop_s <= start_s:
            raise ConfigError(f"stop_s must be after start_s, got {start_s=} and {stop_s=}.")
        self._require_span(start_s, stop_s)
        wander_w = self._wander_w(start_s, stop_s)
        start_j, start_u_j = self._at(start_s, wander_w)
        stop_j, stop_u_j = self._at(stop_s, wander_w)
        return EnergyWindow(
            start_s=start_s,
            duration_s=stop_s - start_s,
            energy_j=max(0.0, stop_j - start_j),
            energy_u_j=float(np.hypot(start_u_j, stop_u_j)),
            source="counter",
            work=work,
            start_u_j=start_u_j,
        )

    def spans(self, start_s: float, stop_s: float) -> bool:
        """Whether there are ticks on both sides of both edges, and three in all."""
        time_s = self.ticks.time_s
        return len(self.ticks) >= 3 and bool(time_s[0] <= start_s and stop_s < time_s[-1])

    def findings(self, start_s: float, stop_s: float) -> tuple[Finding, ...]:
        """Say what went wrong with the counter between two instants."""
        found = [
            Finding(
                reason="counter_reset",
                detail="The energy counter must not decrease, but fell from "
                f"{self._polls.energy_j[i - 1]:.3f} to {self._polls.energy_j[i]:.3f} J; "
                "the driver was probably reloaded.",
            )
            for i in self._resets
            if self._polls.after_s[i] >= start_s and self._polls.before_s[i - 1] <= stop_s
        ]
        allowed_s = max(_FROZEN_TICKS * (self.ticks.period_s or 0.0), _FROZEN_S)
        stood_s = _longest_stand_s(self._polls, start_s, stop_s)
        if stood_s > allowed_s:
            detail = (
                f"The energy counter must move within {allowed_s:.2f} s, "
                f"but stood still for {stood_s:.2f} s."
            )
            found.append(Finding(reason="counter_frozen", detail=detail))
        return tuple(found)

    def _require_span(self, start_s: float, stop_s: float) -> None:
        if not self.spans(start_s, stop_s):
            time_s = self.ticks.time_s
            raise TraceCoverageError(
                f"An energy counter that was seen to tick {len(time_s)} times"
                + (f" from {time_s[0]:.3f} to {time_s[-1]:.3f} s" if len(time_s) else "")
                + f" does not span [{start_s:.3f}, {stop_s:.3f}] s."
            )

    def _at(self, at_s: float, wander_w: float) -> tuple[float, float]:
        """Return the counter's value at an instant, and its standard uncertainty, in joules."""
        ticks, time_s = self.ticks, self.ticks.time_s
        after = int(np.searchsorted(time_s, at_s, side="right"))
        length_s = float(time_s[after] - time_s[after - 1])
        share = float(at_s - time_s[after - 1]) / length_s
        rise_j = float(ticks.energy_j[after] - ticks.energy_j[after - 1])
        timing_j = (rise_j / length_s) * np.hypot(
            (1 - share) * ticks.time_u_s[after - 1], share * ticks.time_u_s[after]
        )
        between_j = wander_w * length_s * np.sqrt(4 * share * (1 - share))
        rounding_j = _RESOLUTION_J / np.sqrt(12)
        energy_j = float(ticks.energy_j[after - 1]) + share * rise_j
        return energy_j, float(np.sqrt(timing_j**2 + between_j**2 + rounding_j**2))

    def _wander_w(self, start_s: float, stop_s: float) -> float:
        """How far mean power wanders within a stretch, in watts, seen around the window.

        Each tick is compared with the line between its two neighbours, which is the error that
        interpolation would have made without it. Power is taken to wander as much at shorter
        times as there (flicker noise), so the error shrinks with the stretch's length.
        """
        ticks, time_s, energy_j = self.ticks, self.ticks.time_s, self.ticks.energy_j
        length_s = time_s[2:] - time_s[:-2]
        share = (time_s[1:-1] - time_s[:-2]) / length_s
        miss_j = energy_j[1:-1] - energy_j[:-2] - share * (energy_j[2:] - energy_j[:-2])
        wander_w = miss_j / (length_s * np.sqrt(4 * share * (1 - share)))
        spacing_s = ticks.period_s or float(np.median(length_s)) / 2
        sharp = ticks.latest_s - ticks.earliest_s <= max(
            spacing_s / 2, float(np.median(ticks.latest_s - ticks.earliest_s))
        )
        close = (length_s <= 3 * spacing_s) & sharp[:-2] & sharp[1:-1] & sharp[2:]
        middle_s, margin_s = time_s[1:-1], 10 * spacing_s
        near = (middle_s >= start_s - margin_s) & (middle_s <= stop_s + margin_s)
        for chosen in (close & near, close, near):
            if chosen.sum() >= _FEWEST_TRIPLES:
                return float(np.sqrt(np.mean(wander_w[chosen] ** 2)))
        return float(np.sqrt(np.mean(wander_w**2)))


def _longest_stand_s(polls: CounterPolls, start_s: float, stop_s: float) -> float:
    inside = (polls.after_s >= start_s) & (polls.before_s <= stop_s)
    time_s, energy_j = polls.before_s[inside], polls.energy_j[inside]
    if time_s.size < 2:
        return 0.0
    first = np.flatnonzero(np.r_[True, np.diff(energy_j) != 0])
    last = np.append(first[1:] - 1, energy_j.size - 1)
    return float((time_s[last] - time_s[first]).max())


def samples_window(
    trace: PowerTrace, start_s: float, stop_s: float, *, work: float = 0.0
) -> EnergyWindow:
    """Integrate power samples over an interval, and say how sure the integral is.

    A sensor sees part of the time: each of its updates is one draw from a power that moves
    between them, so the mean of ``n`` updates is as uncertain as their scatter about the
    course of the power over the square root of ``n``. To that the edges add what the power
    differs between start and stop, for the unknown age of a sample. Readings that repeat the
    one before are no new updates. Power that alternates in step with the sensor stays unseen.

    Args:
        trace: Power samples.
        start_s: Start, on the clock of the trace.
        stop_s: Stop, after ``start_s``.
        work: Units of work done in between.

    Raises:
        ConfigError: If ``stop_s <= start_s``.
        TraceCoverageError: If the trace does not span the interval.
    """
    energy_j = trace.energy_j(start_s, stop_s)
    inside = (trace.t_s >= start_s) & (trace.t_s <= stop_s)
    power_w = trace.power_w[inside]
    updates_w = power_w[np.r_[True, np.diff(power_w) != 0]] if power_w.size else power_w
    duration_s = stop_s - start_s
    scatter_w = _scatter_w(updates_w if updates_w.size >= 3 else trace.power_w)
    num_updates = max(1, updates_w.size)
    edge_w = np.diff(np.interp([start_s, stop_s], trace.t_s, trace.power_w))[0]
    spacing_s = duration_s / num_updates
    energy_u_j = np.hypot(
        scatter_w * duration_s / np.sqrt(num_updates), edge_w * spacing_s / np.sqrt(12)
    )
    return EnergyWindow(
        start_s=start_s,
        duration_s=duration_s,
        energy_j=energy_j,
        energy_u_j=float(energy_u_j),
        source="samples",
        work=work,
    )


def _scatter_w(power_w: np.ndarray) -> float:
    """Scatter of neighbours about each other, which a slow drift leaves alone (von Neumann)."""
    if power_w.size < 2:
        return 0.0
    return float(np.sqrt(np.mean(np.diff(power_w) ** 2) / 2))
