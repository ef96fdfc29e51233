"""The law of board power over clocks: idle, core at a voltage that rises above a ridge, memory.

With ``r`` the clock over that of the profile and ``v`` the voltage over its minimum, the chip draws

    P = p0 + l v^2 + a sm + D ((1 - m) g + m R(1) / R(r))^e,   g = r v^2 / v(1)^2,

where ``D`` is the dynamic power at ``r = 1``, ``a`` what an active device draws at any clock, ``m``
the share of ``D`` that memory takes, which does not follow the voltage but the rate of work:
``R(r)`` is the roofline of ``physics_time``, so that memory is read at the same rate down to the
clock that starves it where it bounds the work, and more slowly at any lower clock where the core
does. ``m`` is the power of memory at its activity over itself and what the core draws; ``e`` is 1
but for what its runs say. Supply losses and heat add a term in ``P^2``.
"""

from dataclasses import dataclass

import numpy as np

from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.members.physics_time import memory_over_core, roofline
from joulelab.power_models.runs import Array

_LOSS_AT_LIMIT = 0.15
"""Share of board power that is lost in the supply and in warmer silicon at the power limit:
regulators lose about a tenth, and leakage doubles in 50 K (estimate)."""
SHAPE = ("p0", "leakage", "active", "ridge", "voltage", "curvature", "knee", "memory")
DOUBT = np.array([0.3, 1.0, 0.5, 0.1, 0.12, 1.5, 0.15, 1.0])
"""Standard errors of what the catalogue says of each, in logs (curvature: of its odds)."""
STEEPNESS_DOUBT = 0.1
"""Standard deviation of the log of the exponent ``e`` among applications: those fitted to whole
sweeps scatter by 0.07 (LLM stages) and 0.12 (HPC applications)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerShape:
    """What all applications on a GPU share; powers over the board's power limit.

    Attributes:
        p0: Power that no clock changes.
        leakage: Power that goes with the squared voltage.
        active: Power of an active device at any clock.
        ridge: Clock from which voltage rises, over that of the profile.
        voltage: Voltage at the clock of the profile over its minimum.
        curvature: Share (0 to 1) of the rise that is quadratic.
        knee: Clock below which memory is starved, over that of the profile.
        memory: Dynamic power of memory at full activity over the power limit.
    """

    p0: float
    leakage: float
    active: float
    ridge: float
    voltage: float
    curvature: float
    knee: float
    memory: float

    @classmethod
    def of(cls, vector: Array) -> "PowerShape":
        """Return the shape that ``vector`` holds, as logs and the odds' log of ``curvature``."""
        values = np.exp(np.clip(vector, -12.0, 12.0))
        numbers = dict(zip(SHAPE, values.tolist(), strict=True))
        numbers["curvature"] /= 1.0 + numbers["curvature"]
        numbers["ridge"] = min(numbers["ridge"], 0.97)
        numbers["voltage"] += 1.0
        return cls(**numbers)

    def squared_voltage(self, ratio: Array) -> Array:
        """Return the square of voltage over its minimum."""
        height = np.maximum(0.0, ratio - self.ridge) / (1.0 - self.ridge)
        rise = (1.0 - self.curvature) * height + self.curvature * height**2
        return np.asarray((1.0 + (self.voltage - 1.0) * rise) ** 2)

    def static(self, ratio: Array, sm_active: Array) -> Array:
        """Return what is drawn without work, over the power limit."""
        return np.asarray(
            self.p0 + self.leakage * self.squared_voltage(ratio) + self.active * sm_active
        )

    def power(
        self, ratio: Array, inputs: Array, dynamic: Array, exponent: Array | float = 1.0
    ) -> Array:
        """Return board power over the power limit.

        Args:
            ratio: Clock over that of the profile, shape ``(n,)``.
            inputs: Activities, shape ``(n, inputs)``.
            dynamic: Dynamic power at the clock of the profile over the power limit.
            exponent: How much steeper than the law this application is.
        """
        sm_active, dram_active = inputs[:, 0], inputs[:, 3]
        memory = self.memory * dram_active
        share = memory / (memory + dynamic + 1e-9)
        core = ratio * self.squared_voltage(ratio) / self.squared_voltage(np.ones(1))
        bound = memory_over_core(dram_active)
        rate = roofline(1.0, bound, self.knee) / roofline(ratio, bound, self.knee)
        shape = (1.0 - share) * core + share * rate
        return lossy(self.static(ratio, sm_active) + dynamic * shape**exponent)


def shape_by_catalogue(spec: GpuSpec) -> Array:
    """Return what the catalogue says of a GPU, as the vector of :meth:`PowerShape.of`."""
    limit_w, default_mhz = spec.default_power_limit_w, spec.default_clock_mhz
    power, curve = spec.power, spec.voltage
    ridge = min(curve.ridge_mhz / default_mhz, 0.9)
    rise = max(curve.at(default_mhz) - 1.0, 0.1)
    clock_w = power.clock_tree_w_per_ghz * default_mhz / 1e3 / (1.0 + rise) ** 2
    knee = min(spec.timing.memory_knee_mhz / default_mhz, 0.95)
    memory_w = power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    return np.array(
        [
            np.log(power.constant_w / limit_w),
            np.log(max(clock_w, 1.0) / limit_w),
            np.log(0.03),
            np.log(ridge),
            np.log(rise),
            0.0,
            np.log(knee),
            np.log(2.0 * memory_w / limit_w),
        ]
    )


def lossy(chip: Array) -> Array:
    """Return board power of chip power, both over the power limit."""
    return chip * (1.0 + _loss() * chip)


def lossless(board: Array) -> Array:
    """Return chip power of board power, both over the power limit."""
    return np.asarray((np.sqrt(1.0 + 4.0 * _loss() * board) - 1.0) / (2.0 * _loss()))


def _loss() -> float:
    return _LOSS_AT_LIMIT / (1.0 - _LOSS_AT_LIMIT) ** 2
