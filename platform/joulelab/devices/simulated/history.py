"""The last seconds of a board's true power, from which its sensors take their readings."""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

_KEPT_S = 4.0
_PRUNE_ABOVE = 1024


class History:
    """Cumulative energy of board and memory over time, linear between knots.

    Args:
        time_s: Now.
        power_w: Board power before now.
        memory_w: Memory power before now.
    """

    def __init__(self, time_s: float, power_w: float, memory_w: float) -> None:
        before_s = 2 * _KEPT_S
        self._time_s = [time_s - before_s, time_s]
        self._energy_j = [-power_w * before_s, 0.0]
        self._memory_j = [-memory_w * before_s, 0.0]

    def append(self, time_s: float, energy_j: float, memory_j: float) -> None:
        """Add to the energies what was used up to ``time_s``."""
        self._time_s.append(time_s)
        self._energy_j.append(self._energy_j[-1] + energy_j)
        self._memory_j.append(self._memory_j[-1] + memory_j)
        if len(self._time_s) > _PRUNE_ABOVE:
            self._prune()

    def energy_j(self, time_s: float) -> float:
        """Return board energy up to ``time_s``, from an arbitrary origin."""
        return _at(self._time_s, self._energy_j, time_s)

    def power_w(self, stop_s: float, window_s: float) -> float:
        """Return mean board power over the ``window_s`` before ``stop_s``."""
        return (self.energy_j(stop_s) - self.energy_j(stop_s - window_s)) / window_s

    def memory_power_w(self, stop_s: float, window_s: float) -> float:
        """Return mean memory power over the ``window_s`` before ``stop_s``."""
        used_j = _at(self._time_s, self._memory_j, stop_s)
        return (used_j - _at(self._time_s, self._memory_j, stop_s - window_s)) / window_s

    def energies_j(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return board energy up to each of ``times_s``, shape ``(n,)``."""
        first = max(0, bisect_right(self._time_s, float(times_s[0])) - 1)
        return np.interp(times_s, self._time_s[first:], self._energy_j[first:])

    def _prune(self) -> None:
        first = bisect_right(self._time_s, self._time_s[-1] - _KEPT_S) - 1
        for series in (self._time_s, self._energy_j, self._memory_j):
            del series[: max(0, first)]


def _at(times_s: list[float], energies_j: list[float], time_s: float) -> float:
    after = min(max(bisect_right(times_s, time_s), 1), len(times_s) - 1)
    start_s, start_j = times_s[after - 1], energies_j[after - 1]
    share = (time_s - start_s) / (times_s[after] - start_s)
    return start_j + min(max(share, 0.0), 1.0) * (energies_j[after] - start_j)
