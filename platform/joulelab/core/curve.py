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
"""A tick that is known so many times worse than the sharper ones is left out.

Of two that are timed together the first is known only to have come since the time before."""
COURSE_U_SQRT_S = 3e-4
"""How far the samples' course strays where power stands still: relative, times the root of seconds.

An H100's windows of small kernels differ from its counter by no more than the counter's ticks leave
open."""
PRIOR_STRETCHES = 4.0
"""So many stretches between anchors must tell of straying before they outweigh expectation."""
LEAST_BIRGE_2 = 0.3
"""As on H200s, whose samples are means of nearly all of the time between them."""
LATE = 0.5
"""Samples may show power later by so many times what is between them: an H100's are means of the
time before them, and tell of it 10 ms late; an H200's do not."""
LEVEL_U = 0.01
"""The same for their level where no counter tells it; 0.3 and 0.7 % were seen on an H200."""
_MEDIAN_OF_CHI_2 = 0.4549
MAX_LEVEL_DIFFERENCE = 0.1
"""A sensor that sees part of the time may be off by some percent in step with a periodic load; more
is a counter that began anew, or samples of something else."""


class EnergyCurve:
    """Cumulative energy of one device over time, from power samples and ticks of its counter.

    Fewer than two ticks that were timed leave the level to the samples alone.
    """

    def __init__(self, trace: PowerTrace, ticks: Ticks | None = None) -> None:
        self._trace = trace
        steps_j = np.diff(trace.t_s) * (trace.power_w[1:] + trace.power_w[:-1]) / 2
        self._summed_j = _summed(steps_j)
        chosen = np.empty(0, np.intp) if ticks is None else _chosen(trace, ticks)
        self._at_s = self._u_s = self._sampled_j = self._known_j = np.empty(0)
        self._ratio = np.ones(1)
        self._late_s = LATE * float(np.median(np.diff(trace.t_s)))
        self._moved_j2 = (np.diff(trace.power_w) * np.diff(trace.t_s)) ** 2 / 12
        noise_j2 = (COURSE_U_SQRT_S * steps_j) ** 2 / np.diff(trace.t_s)
        self._strayed_j2 = _summed(self._moved_j2 + noise_j2)
        if ticks is not None and chosen.size >= 2:
            self._at_s, self._u_s = ticks.time_s[chosen], ticks.time_u_s[chosen]
            self._timed_w = self._power_w(self._at_s)
            self._known_j, self._sampled_j = ticks.energy_j[chosen], self._sampled(self._at_s)
            self._ratio = np.diff(self._known_j) / np.diff(self._sampled_j)
        self._strayed_j2 *= self._birge_2()

    @property
    def is_anchored(self) -> bool:
        """Whether the counter tells the level."""
        return self._at_s.size >= 2

    def energy_j(self, at_s: Array) -> Array:
        """Cumulative energy at instants within the samples, shape ``(n,)``.

        It is the counter's, or that since the first sample.
        """
        sampled_j = self._sampled(at_s)
        if not self.is_anchored:
            return sampled_j
        stretch = self._stretch(at_s)
        level_j: Array = self._known_j[stretch]
        return level_j + self._ratio[stretch] * (sampled_j - self._sampled_j[stretch])

    def window(self, start_s: float, stop_s: float, *, work: float = 0.0) -> EnergyWindow:
        """Return the energy between two instants, with its standard uncertainty.

        Raises ConfigError if ``stop_s <= start_s``; TraceCoverageError if the samples do not span
        the interval.
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

        Three causes: the course of the samples; when the anchors' ticks came; and how power moved
        between the two samples around each edge. The course strays the more, the more samples
        differ from each other, and is tied down at the anchors (a Brownian bridge). Or it comes
        late as a whole, which tells where power has changed from edge to edge more than from anchor
        to anchor. It cannot be both, so the larger counts.
        """
        power_w = energy_j / (stop_s - start_s)
        edges_j2 = self._edge_j2(start_s) + self._edge_j2(stop_s)
        if not self.is_anchored:
            strayed_j2 = self._walked(self._strayed_j2, start_s, stop_s)
            return float(np.sqrt(strayed_j2 + (LEVEL_U * energy_j) ** 2 + edges_j2))
        first_s, last_s = float(self._at_s[0]), float(self._at_s[-1])
        low_s, high_s = (min(max(at_s, first_s), last_s) for at_s in (start_s, stop_s))
        outside_s = (low_s - start_s) + (stop_s - high_s)
        weights = self._weights(np.array([low_s, high_s]))
        timing_j = float(np.linalg.norm(weights * self._timed_w * self._u_s))
        moved_w = float(np.diff(self._power_w(np.array([start_s, stop_s])))[0])
        late_j = self._late_s * (moved_w - float(weights @ self._timed_w))
        ratio_u = np.hypot(self._u_s[1:], self._u_s[:-1]) / np.diff(self._at_s)
        outside_j = power_w * outside_s * float(ratio_u.max())
        strayed_j2 = self._bridged(self._strayed_j2, low_s, high_s)
        strayed_j2 += self._walked(self._strayed_j2, start_s, low_s)
        strayed_j2 += self._walked(self._strayed_j2, high_s, stop_s)
        # Samples that are off more than usual, as in step with a periodic load, stray as a whole.
        strange = max(0.0, float(np.abs(self._ratio - 1).max()) - LEVEL_U)
        strange_j = strange * power_w * self._bridged(self._trace.t_s, low_s, high_s)
        return float(
            np.sqrt(
                max(strayed_j2, late_j**2) + edges_j2 + timing_j**2 + outside_j**2 + strange_j**2
            )
        )

    def _birge_2(self) -> float:
        """How much more the levels of neighbouring stretches differ than was to be expected.

        The square of Birge's ratio, from medians so that a change of load does not count. Power
        that steps at an unknown instant between two samples is what is expected; samples that are
        means of that time stray less, and short looks at power that moves faster stray more.
        """
        if self._ratio.size < 2:
            return 1.0
        timed_j, share = self._u_s * self._timed_w, 1 / np.diff(self._sampled_j)
        timing = (timed_j[:-2] * share[:-1]) ** 2 + (timed_j[2:] * share[1:]) ** 2
        timing += (timed_j[1:-1] * (share[:-1] + share[1:])) ** 2
        strayed_j2 = np.diff(np.interp(self._at_s, self._trace.t_s, self._strayed_j2))
        strayed = strayed_j2 / np.diff(self._sampled_j) ** 2
        expected, timed = np.median(strayed[1:] + strayed[:-1]), np.median(timing)
        seen = (np.median(np.diff(self._ratio) ** 2) / _MEDIAN_OF_CHI_2 - timed) / expected
        weight = (self._ratio.size - 1) * (expected / (expected + timed)) ** 2
        return max(
            LEAST_BIRGE_2, float((PRIOR_STRETCHES + weight * seen) / (PRIOR_STRETCHES + weight))
        )

    def _walked(self, walk: Array, low_s: float, high_s: float) -> float:
        """How far a walk that is known at every sample has come between two instants."""
        return float(np.diff(np.interp([low_s, high_s], self._trace.t_s, walk))[0])

    def _bridged(self, walk: Array, low_s: float, high_s: float) -> float:
        """The same of a walk that is tied down at the anchors."""
        ends_s = np.array([low_s, high_s])
        stretch, shares = self._stretch(ends_s), self._shares(ends_s)
        anchors = np.interp(self._at_s, self._trace.t_s, walk)
        whole = np.diff(anchors)[stretch]
        if stretch[0] == stretch[1]:
            part = self._walked(walk, low_s, high_s)
            return float(_bridge(part, float(np.diff(shares)[0]), whole[0]))
        parts = np.interp(ends_s, self._trace.t_s, walk) - anchors[stretch]
        return float(_bridge(parts, shares, whole).sum())

    def _weights(self, ends_s: Array) -> Array:
        """How much of each anchor's level is in the energy between two instants."""
        stretch, shares = self._stretch(ends_s), self._shares(ends_s)
        weights = np.zeros((2, self._at_s.size))
        weights[[0, 1], stretch] = 1 - shares
        weights[[0, 1], stretch + 1] = shares
        difference: Array = weights[1] - weights[0]
        return difference

    def _shares(self, at_s: Array) -> Array:
        """Share of its stretch's energy that each instant has before it."""
        stretch = self._stretch(at_s)
        since_j = self._sampled(at_s) - self._sampled_j[stretch]
        shares: Array = since_j / np.diff(self._sampled_j)[stretch]
        return shares

    def _stretch(self, at_s: Array) -> NDArray[np.intp]:
        """Which stretch between anchors each instant is in, or nearest to."""
        before = np.searchsorted(self._at_s, at_s, side="right") - 1
        return np.clip(before, 0, self._at_s.size - 2)

    def _power_w(self, at_s: Array) -> Array:
        power_w: Array = np.interp(at_s, self._trace.t_s, self._trace.power_w)
        return power_w

    def _edge_j2(self, at_s: float) -> float:
        """Variance of where power moved between the samples around an edge."""
        after = int(np.searchsorted(self._trace.t_s, at_s, side="right"))
        return float(self._moved_j2[np.clip(after, 1, self._moved_j2.size) - 1])

    def _sampled(self, at_s: Array) -> Array:
        """Trapezoidal integral of the samples from the first one on."""
        t_s, power_w = self._trace.t_s, self._trace.power_w
        before = np.clip(np.searchsorted(t_s, at_s, side="right") - 1, 0, t_s.size - 2)
        there_w = np.interp(at_s, t_s, power_w)
        rest_j: Array = (at_s - t_s[before]) * (there_w + power_w[before]) / 2
        return self._summed_j[before] + rest_j


def _chosen(trace: PowerTrace, ticks: Ticks) -> NDArray[np.intp]:
    """Ticks within the trace, known about as well as the sharper ones, and ``SPAN_S`` apart."""
    u_s = ticks.time_u_s
    usable = (ticks.time_s >= trace.t_s[0]) & (ticks.time_s <= trace.t_s[-1])
    if usable.any():
        usable &= u_s <= SHARPEST_SHARE * float(np.quantile(u_s[usable], 0.25))
    chosen: list[int] = []
    for i in np.flatnonzero(usable):
        if not chosen or ticks.time_s[i] - ticks.time_s[chosen[-1]] >= SPAN_S:
            chosen.append(int(i))
    return np.array(chosen, np.intp)


def _summed(steps: Array) -> Array:
    return np.concatenate(([0.0], np.cumsum(steps)))


def _bridge(part: Array | float, share: Array | float, whole: Array | float) -> Array:
    """Variance of a part of a random walk that is tied down at both ends of the whole."""
    return np.asarray(part * (1 - 2 * share) + whole * share**2)
