"""In what one board differs from the next of its kind, and what its sensors show of its power.

They show it late, averaged, scaled, stepwise and with noise.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from joulelab.core.cost import KernelCost
from joulelab.core.trace import PowerTrace
from joulelab.hardware import GpuSpec
from joulelab.hardware.spec import SensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Traits of one board.

    Published spreads: power sensors 4 to 6 % between boards (Yang, Adamek, Armour, SC24), idle
    power 4 % over eight V100; the rest is estimated.
    """

    seed: int
    gain: float = 1.0  # shown power over true power
    offset_w: float = 0.0  # shown power at no power
    leakage_scale: float = 1.0
    voltage_scale: float = 1.0
    latency_scale: float = 1.0
    phase_s: float = 0.0  # when the sensor's ticks fall, 0 to 1 second
    counter_origin_j: float = 0.0  # energy counter at the start
    noise: float = 0.003  # standard deviation of one power reading, relative
    # Standard deviation of the time of one run of some 50 ms, relative; an H200 shows 0.03 %
    # between windows of 2 s, which hold forty.
    run_noise: float = 0.0
    # The same of a whole spell of runs without a pause; by it, repeats of a trial scatter more than
    # its windows.
    spell_noise: float = 0.0
    # Standard deviation of what a kernel takes above static power among others, over what it takes
    # alone. H100s and H200s are as if it were 5 % (experiments/results/h200_attribution).
    context: float = 0.0

    @classmethod
    def of(cls, seed: int, spec: GpuSpec) -> "Board":
        """Return the board of kind ``spec`` that ``seed`` names."""
        random = np.random.default_rng(seed)
        return cls(
            seed=seed,
            gain=float(random.normal(1.0, 0.03)),
            offset_w=float(random.normal(0.0, 0.007 * spec.default_power_limit_w)),
            leakage_scale=float(np.exp(random.normal(0.0, 0.10))),
            voltage_scale=float(random.normal(1.0, 0.01)),
            latency_scale=float(np.exp(random.normal(0.0, 0.2))),
            phase_s=float(random.uniform(0.0, 1.0)),
            counter_origin_j=float(random.uniform(1e3, 1e7)),
            run_noise=0.002,
            spell_noise=0.001,
        )

    def among_others(self, kernels: Sequence[KernelCost]) -> NDArray[np.float64] | None:
        """Return what each of a phase's kernels takes above static power, over the same alone.

        ``None`` where no kernel differs: on a board without :attr:`context`, or of one alone.
        """
        if not self.context:
            return None
        each, factors = [replace(kernel, count=1) for kernel in kernels], {}
        for kernel in set(each):
            random = np.random.default_rng([self.seed, crc32(repr(kernel).encode())])
            factors[kernel] = float(random.normal(1.0, self.context))
        return np.array([factors[kernel] for kernel in each]) if len(factors) > 1 else None

    def switch_latency_s(self, median_s: float, target_mhz: int, num_changes: int) -> float:
        """Return how long the ``num_changes``-th clock change takes, to ``target_mhz``.

        It depends mostly on the target (LATEST, arXiv:2502.20075); one in a hundred is slow.
        """
        by_target = np.random.default_rng([self.seed, target_mhz]).normal(0.0, 0.4)
        by_chance = np.random.default_rng([self.seed, target_mhz, num_changes])
        if by_chance.random() < 0.01:
            return float(by_chance.uniform(0.1, 0.5))
        spread = by_target + by_chance.normal(0.0, 0.1)
        return median_s * self.latency_scale * float(np.exp(spread))


_KEPT_S = 4.0
_PRUNE_ABOVE = 1024
_BLOCK, _BLOCKS_KEPT = 64, 32
"""A reading's noise belongs to its tick, so that reading it twice shows it twice alike."""
_INSTANT, _AVERAGE, _SAMPLES = 1, 2, 3


class History:
    """Cumulative energy of board and memory over time, linear between knots."""

    def __init__(self, time_s: float, power_w: float, memory_w: float) -> None:
        before_s = 2 * _KEPT_S
        self._time_s = array("d", [time_s - before_s, time_s])
        self._energy_j = array("d", [-power_w * before_s, 0.0])
        self._memory_j = array("d", [-memory_w * before_s, 0.0])

    def append(self, time_s: float, energy_j: float, memory_j: float) -> None:
        """Add to the energies what was used up to ``time_s``."""
        self._time_s.append(time_s)
        self._energy_j.append(self._energy_j[-1] + energy_j)
        self._memory_j.append(self._memory_j[-1] + memory_j)
        if len(self._time_s) > _PRUNE_ABOVE:
            first = bisect_right(self._time_s, self._time_s[-1] - _KEPT_S) - 1
            for series in (self._time_s, self._energy_j, self._memory_j):
                del series[: max(0, first)]

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
        knots_s, knots_j = (
            np.frombuffer(self._time_s)[first:],
            np.frombuffer(self._energy_j)[first:],
        )
        return np.interp(times_s, knots_s, knots_j)


def _at(times_s: Sequence[float], energies_j: Sequence[float], time_s: float) -> float:
    after = min(max(bisect_right(times_s, time_s), 1), len(times_s) - 1)
    start_s, start_j = times_s[after - 1], energies_j[after - 1]
    share = (time_s - start_s) / (times_s[after] - start_s)
    return start_j + min(max(share, 0.0), 1.0) * (energies_j[after] - start_j)


class Sensors:
    """The sensors of one board; its energy counter stood at its origin at ``start_s``."""

    def __init__(self, spec: SensorSpec, board: Board, history: History, start_s: float) -> None:
        self._spec = spec
        self._board = board
        self._history = history
        self._start_s = start_s
        self._origin_j = board.counter_origin_j
        self._held_power_s: float | None = None
        self._held_power: dict[str, float] = {}
        self._held_energy_j: float | None = None
        self._noise: dict[tuple[int, int], NDArray[np.float64]] = {}

    def power_w(self, time_s: float) -> float:
        """Return the fastest power reading at ``time_s``."""
        update_s, window_s = self._spec.instant_update_s, self._spec.instant_window_s
        return self._reading("instant", _INSTANT, time_s, update_s, window_s)

    def average_power_w(self, time_s: float) -> float | None:
        """Return the driver's averaged reading; ``None`` where the sensor has none."""
        if self._spec.average_window_s is None:
            return None
        update_s = self._spec.instant_update_s
        return self._reading("average", _AVERAGE, time_s, update_s, self._spec.average_window_s)

    def memory_power_w(self, time_s: float) -> float:
        """Return the memory's power, averaged as the driver does."""
        stop_s = self._tick_s(time_s, self._spec.instant_update_s)
        return self._history.memory_power_w(stop_s, self._spec.average_window_s or 1.0)

    def energy_j(self, time_s: float) -> float:
        """Return the energy counter: whole millijoules, stepping at its ticks."""
        if self._held_energy_j is not None:
            return self._held_energy_j
        stop_s = max(self._start_s, self._tick_s(time_s, self._spec.energy_tick_s))
        return floor((self._shown_j(stop_s) + self._origin_j) * 1000) / 1000

    def samples(self, time_s: float) -> PowerTrace:
        """Return the power samples in the driver's buffer."""
        shown_s = self._shown_s(time_s)
        period_s, num_samples = self._spec.sample_period_s, self._spec.sample_count
        last = self._tick(shown_s, period_s)
        ticks = np.arange(last - num_samples, last + 1)
        t_s = np.asarray(self._board.phase_s + ticks * period_s, dtype=np.float64)
        used_j = self._history.energies_j(t_s)
        true_w = (used_j[1:] - used_j[:-1]) / period_s
        shown_w = self._board.gain * true_w + self._board.offset_w
        noise = self._noises(_SAMPLES, last - num_samples + 1, last)
        return PowerTrace(t_s[1:], np.round(shown_w * (1 + noise), 3))

    def hold_power(self, time_s: float | None) -> None:
        """Let every power reading stand still from ``time_s`` on; ``None`` ends that."""
        self._held_power_s = time_s
        self._held_power.clear()

    def hold_energy(self, time_s: float | None) -> None:
        """Let the energy counter stand still from ``time_s`` on; ``None`` ends that."""
        self._held_energy_j = None
        if time_s is not None:
            self._held_energy_j = self.energy_j(time_s)

    def reset_energy(self, time_s: float) -> None:
        """Let the energy counter start again from zero at ``time_s``."""
        self._origin_j = -self._shown_j(self._tick_s(time_s, self._spec.energy_tick_s))

    def _reading(
        self, name: str, channel: int, time_s: float, update_s: float, window_s: float
    ) -> float:
        if name in self._held_power:
            return self._held_power[name]
        shown_s = self._shown_s(time_s)
        tick = self._tick(shown_s, update_s)
        true_w = self._history.power_w(self._board.phase_s + tick * update_s, window_s)
        shown_w = self._board.gain * true_w + self._board.offset_w
        power_w = round(max(0.0, shown_w) * (1 + self._noise_at(channel, tick)), 3)
        if self._held_power_s is not None:
            self._held_power[name] = power_w
        return power_w

    def _shown_s(self, time_s: float) -> float:
        return time_s if self._held_power_s is None else min(time_s, self._held_power_s)

    def _shown_j(self, time_s: float) -> float:
        passed_s = time_s - self._start_s
        return self._board.gain * self._history.energy_j(time_s) + self._board.offset_w * passed_s

    def _tick(self, time_s: float, period_s: float) -> int:
        return floor((time_s - self._board.phase_s) / period_s + 1e-9)

    def _tick_s(self, time_s: float, period_s: float) -> float:
        return self._board.phase_s + self._tick(time_s, period_s) * period_s

    def _noise_at(self, channel: int, tick: int) -> float:
        block, place = divmod(tick, _BLOCK)
        return float(self._noise_block(channel, block)[place])

    def _noises(self, channel: int, first: int, last: int) -> NDArray[np.float64]:
        """Return the relative noise of readings ``first`` to ``last``, both included."""
        blocks = range(first // _BLOCK, last // _BLOCK + 1)
        noise = np.concatenate([self._noise_block(channel, block) for block in blocks])
        start = first - blocks[0] * _BLOCK
        return noise[start : start + last - first + 1]

    def _noise_block(self, channel: int, block: int) -> NDArray[np.float64]:
        noise = self._noise.get((channel, block))
        if noise is None:
            if len(self._noise) > _BLOCKS_KEPT:
                self._noise.clear()
            seed = [self._board.seed, channel, block % (1 << 32)]
            noise = np.random.default_rng(seed).normal(0.0, self._board.noise, _BLOCK)
            self._noise[channel, block] = noise
        return noise
