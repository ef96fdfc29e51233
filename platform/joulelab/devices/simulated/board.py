"""In what one board differs from the next of its kind."""

from dataclasses import dataclass

import numpy as np

from joulelab.hardware import GpuSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Traits of one board.

    Published spreads: power sensors 4 to 6 % between boards (Yang, Adamek, Armour, SC24), idle
    power 4 % over eight V100; the rest is estimated.

    Attributes:
        seed: Seed of everything random on this board.
        gain: Shown power over true power.
        offset_w: Shown power at no power.
        phase_s: When the sensor's ticks fall, 0 to 1 second.
        counter_origin_j: Energy counter at the start.
        noise: Standard deviation of one power reading, relative.
        run_noise: Standard deviation of the time of one run of some 50 ms, relative; an H200
            shows 0.03 % between windows of 2 s, which hold forty.
        spell_noise: The same of a whole spell of runs without a pause; by it, repeats of a
            trial scatter more than its windows.
    """

    seed: int
    gain: float = 1.0
    offset_w: float = 0.0
    leakage_scale: float = 1.0
    voltage_scale: float = 1.0
    latency_scale: float = 1.0
    phase_s: float = 0.0
    counter_origin_j: float = 0.0
    noise: float = 0.003
    run_noise: float = 0.0
    spell_noise: float = 0.0

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
