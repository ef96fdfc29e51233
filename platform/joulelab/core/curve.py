"""Energy between any two instants, from power samples for its course and a counter for its level.

Power samples come every 20 ms but are off by half a percent from the counter of the same board; the
counter is right over seconds but ticks every 100 ms, and a tick is known to a millisecond or two
only where it was looked for. So the counter is read now and then, and between the ticks that were
timed energy takes the course that the samples show. No edge of a window need be announced.
"""

import numpy as np
from numpy.typing import NDArray

from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding
from joulelab.core.ticks import Array, Ticks
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, TraceCoverageError

SPAN_S = 2.0
"""Ticks that are closer together tell the level worse."""
SHARPEST_SHARE = 4.0
"""A tick that is known so many times worse than most is left out."""
COURSE_U_SQRT_S = 1.2e-3
"""How far the samples' course strays from the counter's: relative, times the root of seconds.

Over windows of 0.5 to 5 s of steady loads on an H200 the two agree within what the timing of the
ticks leaves open if it is 0.12 % after a second."""
LEVEL_U = 0.01
"""The same for their level where no counter tells it; 0.3 and 0.7 % were seen on an H200."""
MAX_LEVEL_DIFFERENCE = 0.1
"""A sensor that sees part of the time may be off by some percent in step with a periodic load; more
is a counter that began anew, or samples of something else."""


class EnergyCurve:
    """Cumulative energy of one device over time.

    Args:
        trace: Power samples.
        ticks: Ticks of the energy counter that were timed; fewer than two leave the level to the
            samples alone.
    """

    def __init__(self, trace: PowerTrace, ticks: Ticks | None = None) -> None:
        self._trace = trace
        steps_j = np.diff(trace.t_s) * (trace.power_w[1:] + trace.power_w[:-1]) / 2
        self._summed_j = np.concatenate(([0.0], np.cumsum(steps_j)))
        chosen = np.empty(0, np.intp) if ticks is None else _chosen(trace, ticks)
        self._at_s = self._u_s = self._sampled_j = self._known_j = np.empty(0)
        self._ratio = np.ones(1)
        if ticks is not None and chosen.size >= 2:
            self._at_s, self._u_s = ticks.time_s[chosen], ticks.time_u_s[chosen]
            self._known_j, self._sampled_j = ticks.energy_j[chosen], self._sampled(self._at_s)
            self._ratio = np.diff(self._known_j) / np.diff(self._sampled_j)

    @property
    def is_anchored(self) -> bool:
        """Whether the counter tells the level."""
        return self._at_s.size >= 2

    def energy_j(self, at_s: Array) -> Array:
        """Cumulative energy at ``at_s``: the counter's, or that since the first sample.

        Args:
            at_s: Instants within the samples, shape ``(n,)``.
        """
        sampled_j = self._sampled(at_s)
        if not self.is_anchored:
            return sampled_j
        stretch = self._stretch(at_s)
        level_j: Array = self._known_j[stretch]
        return level_j + self._ratio[stretch] * (sampled_j - self._sampled_j[stretch])

    def window(self, start_s: float, stop_s: float, *, work: float = 0.0) -> EnergyWindow:
        """Return the energy between two instants, with its standard uncertainty.

        Raises:
            ConfigError: If ``stop_s <= start_s``.
            TraceCoverageError: If the samples do not span the interval.
        """
        if stop_s <= start_s:
            raise ConfigError(f"stop_s must be after start_s, got {start_s=} and {stop_s=}.")
        t_s = self._trace.t_s
        if not self._trace.spans(start_s, stop_s):
            raise TraceCoverageError(
                f"Power samples from {t_s[0]:.3f} to {t_s[-1]:.3f} s do not span "
                f"[{start_s:.3f}, {stop_s:.3f}] s."
            )
        energy_j = max(0.0, float(np.diff(self.energy_j(np.array([start_s, stop_s])))[0]))
        return EnergyWindow(
            start_s=start_s,
            duration_s=stop_s - start_s,
            energy_j=energy_j,
            energy_u_j=self._u_j(start_s, stop_s, energy_j),
            source="curve" if self.is_anchored else "samples",
            work=work,
        )

    def findings(self, start_s: float, stop_s: float) -> tuple[Finding, ...]:
        """Say where between two instants counter and samples do not tell of the same energy."""
        if not self.is_anchored:
            return ()
        first, last = self._stretch(np.array([start_s, stop_s]))
        ratio = self._ratio[first : last + 1]
        worst = float(ratio[np.abs(ratio - 1).argmax()])
        if abs(worst - 1) <= MAX_LEVEL_DIFFERENCE:
            return ()
        return (
            Finding(
                reason="sources_disagree",
                detail=f"Counter and samples must agree within {MAX_LEVEL_DIFFERENCE:.0%} over "
                f"some seconds, but the counter rose by {worst:.2f} times what the samples say.",
            ),
        )

    def _u_j(self, start_s: float, stop_s: float, energy_j: float) -> float:
        """Standard uncertainty of the energy between two instants.

        Three causes: the course of the samples, which strays as a random walk and is tied down at
        the anchors (a Brownian bridge); when the anchors' ticks came; and how power moved between
        the two samples around each edge.
        """
        power_w = energy_j / (stop_s - start_s)
        edges_j = np.hypot(self._edge_j(start_s), self._edge_j(stop_s))
        if not self.is_anchored:
            course_j = COURSE_U_SQRT_S * power_w * np.sqrt(stop_s - start_s)
            return float(np.sqrt(course_j**2 + (LEVEL_U * energy_j) ** 2 + edges_j**2))
        first_s, last_s = float(self._at_s[0]), float(self._at_s[-1])
        low_s, high_s = (min(max(at_s, first_s), last_s) for at_s in (start_s, stop_s))
        outside_s = (low_s - start_s) + (stop_s - high_s)
        free_s, timing_s = self._between(low_s, high_s)
        timing_s = np.hypot(timing_s, outside_s * float(self._ratio_u.max()))
        course_j = COURSE_U_SQRT_S * power_w * np.sqrt(free_s + outside_s)
        # Samples that are off more than usual, as in step with a periodic load, stray as a whole.
        strange = max(0.0, float(np.abs(self._ratio - 1).max()) - LEVEL_U)
        course_j = np.hypot(course_j, strange * power_w * free_s)
        return float(np.sqrt(course_j**2 + (power_w * timing_s) ** 2 + edges_j**2))

    def _between(self, low_s: float, high_s: float) -> tuple[float, float]:
        """Length of the free walk between two instants, and what timing of ticks leaves open."""
        first, last = self._stretch(np.array([low_s, high_s]))
        length_s = np.diff(self._at_s)
        if first == last:
            free_s = _bridge_s(high_s - low_s, length_s[first])
            return free_s, (high_s - low_s) * float(self._ratio_u[first])
        free_s, timing_s = 0.0, 0.0
        for at_s, stretch in ((low_s, first), (high_s, last)):
            share = (at_s - self._at_s[stretch]) / length_s[stretch]
            free_s += _bridge_s(at_s - self._at_s[stretch], length_s[stretch])
            weights = np.array([1 - share, share])
            timing_s = np.hypot(timing_s, np.hypot(*(weights * self._u_s[stretch : stretch + 2])))
        return free_s, float(timing_s)

    @property
    def _ratio_u(self) -> Array:
        """Relative standard uncertainty of each stretch's level, from when its ticks came."""
        timing_s: Array = np.hypot(self._u_s[1:], self._u_s[:-1])
        return timing_s / np.diff(self._at_s)

    def _stretch(self, at_s: Array) -> NDArray[np.intp]:
        """Which stretch between anchors each instant is in, or nearest to."""
        before = np.searchsorted(self._at_s, at_s, side="right") - 1
        return np.clip(before, 0, self._at_s.size - 2)

    def _edge_j(self, at_s: float) -> float:
        t_s, power_w = self._trace.t_s, self._trace.power_w
        after = int(np.clip(np.searchsorted(t_s, at_s, side="right"), 1, t_s.size - 1))
        step_w = power_w[after] - power_w[after - 1]
        return float(abs(step_w) * (t_s[after] - t_s[after - 1]) / np.sqrt(12))

    def _sampled(self, at_s: Array) -> Array:
        """Trapezoidal integral of the samples from the first one on."""
        t_s, power_w = self._trace.t_s, self._trace.power_w
        before = np.clip(np.searchsorted(t_s, at_s, side="right") - 1, 0, t_s.size - 2)
        there_w = np.interp(at_s, t_s, power_w)
        rest_j: Array = (at_s - t_s[before]) * (there_w + power_w[before]) / 2
        return self._summed_j[before] + rest_j


def _chosen(trace: PowerTrace, ticks: Ticks) -> NDArray[np.intp]:
    """Ticks within the trace, known about as well as most, and ``SPAN_S`` apart."""
    u_s = ticks.time_u_s
    usable = (ticks.time_s >= trace.t_s[0]) & (ticks.time_s <= trace.t_s[-1])
    if usable.any():
        usable &= u_s <= SHARPEST_SHARE * float(np.median(u_s[usable]))
    chosen: list[int] = []
    for i in np.flatnonzero(usable):
        if not chosen or ticks.time_s[i] - ticks.time_s[chosen[-1]] >= SPAN_S:
            chosen.append(int(i))
    return np.array(chosen, np.intp)


def _bridge_s(length_s: float, whole_s: float) -> float:
    """Length of a free random walk that strays as far as one tied down ``whole_s`` apart."""
    return float(length_s * (1 - length_s / whole_s))
