"""Laws of time and of board power over clocks, and what they take from a profile.

The curves of voltage and of time are those of ``core/power_law.py``, over the clock of the profile.
Time is ``1 - h + h R(r) / R(1)``: ``h`` is the share of the time that the device works, ``mu`` time
for memory over time in the core, and ``k`` the clock below which memory is starved.

What units draw is not known apart, but by activities and by the power at the clock of the profile.
So with ``r`` the clock over it and ``v`` the voltage over its minimum, the chip draws

    P = p0 + l v^2 + a sm + D ((1 - m) g + m R(1) / R(r))^e,   g = r v^2 / v(1)^2,

where ``D`` is the dynamic power at ``r = 1``, ``a`` what an active device draws at any clock, ``m``
the share of ``D`` that memory takes, which does not follow the voltage but the rate of work:
``R(r)`` is the roofline, so that memory is read at the same rate down to the
clock that starves it where it bounds the work, and more slowly at any lower clock where the core
does. ``m`` is the power of memory at its activity over itself and what the core draws; ``e`` is 1
but for what its runs say. Supply losses and heat add a term in ``P^2``.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logit  # type: ignore[import-untyped]

from joulelab.core import power_law
from joulelab.hardware import GPUS
from joulelab.hardware.spec import GpuSpec
from joulelab.power_models.decision import NEXT_TO
from joulelab.power_models.features import filled, matrix
from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array, Pair

INPUTS = ("sm_active", "fp_active", "tensor_active", "dram_active", "gr_engine_active")
_SM, _ENGINE = INPUTS.index("sm_active"), INPUTS.index("gr_engine_active")
_TELL_OF_WORK = {"sm_active", "gr_engine_active"}
_ASSUMED = np.array([1.0, 0.2, 0.0, 0.3, 1.0])
"""A device that is kept busy, for units that were not read. Medians of other applications, which
were read, left no work to the memory: powers of six kinds of GPU left out were 11.4 % off after one
point, and are 10.5 % off."""


def profile_inputs(queries: Queries) -> Array:
    """Return the activities of each profile, shape (profiles, inputs).

    An engine that was not read was busy while SMs were: at the usual value of 1, times of the A100
    study err by 10.3 %, by 7.3 % at that of the SMs, and by 4.9 % where it was read.
    """
    read = matrix(queries.each_profile(), INPUTS)
    read[:, _ENGINE] = filled(read[:, _ENGINE], read[:, _SM])
    return filled(read, _ASSUMED)


_CEILING = 1.1
"""Memory activity at which memory alone would bound; measured activities end at about 0.9."""
TIME_WEIGHTS = ("idle", "sm", "engine", "unread", "memory", "memory_fp", "knee")
"""What is learned: the odds of the working share at rest, by SM and graphics engine activity, and
where neither was read; the memory ratio without and by FP activity, and the log of the knee over
the catalogue's. Taken for busy, what was not read but waited made every busy device wait."""
TIME_DOUBT = np.array([3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 0.3])
"""Standard errors of the weights around 0, before anything is learned."""

_BUSY = 3.0
"""Log-odds of a working share of 95 %, the most that mean power tells of one."""


def time_parameters(
    weights: Array, gpus: tuple[str, ...], queries: Queries, inputs: Array
) -> Array:
    """Return the log-odds of ``h`` and the log of ``mu`` of each profile, shape (profiles, 2).

    ``weights`` are those of :data:`TIME_WEIGHTS`, then by how much each of the ``gpus`` that were
    seen departs from them; ``inputs`` are activities of each profile.
    """
    sm, fp, _, dram, engine = inputs.T
    shared, own = np.split(weights, [len(TIME_WEIGHTS)])
    is_read = [not _TELL_OF_WORK.isdisjoint(profile.activity) for profile in queries.profiles]
    odds = np.where(is_read, shared[0] + shared[1] * sm + shared[2] * engine, shared[3])
    memory = shared[4] + shared[5] * fp + np.log(memory_over_core(dram))
    usual = dict(zip(gpus, own.reshape(-1, 2), strict=True))
    moved = [usual.get(profile.gpu, np.zeros(2)) for profile in queries.profiles]
    return np.column_stack([odds, memory]) + np.array(moved)


def least_odds(queries: Queries, share: Array, trained_on: Container[str]) -> dict[Pair, float]:
    """Return the least log-odds of the working share of profiles that ran at their clocks.

    No instant exceeds the power limit, and a device that waits draws what its clock alone does. So
    mean power tells how much of the time is left for waiting: next to none where a limit holds it.

    Args:
        queries: What was measured.
        share: Power over the power limit, of each.
        trained_on: GPUs of which it is learned how long they wait, and whose limit may be another.
    """
    found = {}
    for number, rows in queries.by_profile():
        near = rows[np.abs(np.log(queries.clock_ratio[rows])) <= NEXT_TO]
        profile = queries.profiles[number]
        if len(near) and profile.gpu not in trained_on:
            shape = PowerShape.of(shape_by_catalogue(profile.spec))
            waiting = float(lossy(shape.static(np.ones(1), np.zeros(1)))[0])
            spare = (1.0 - share[near].max()) / (1.0 - waiting)
            found[profile.pair] = float(min(_BUSY, -logit(np.clip(spare, 0.0, 1.0))))
    return found


def memory_knee(queries: Queries, weights: Array, measured: Mapping[str, Array]) -> Array:
    """Return the clock below which memory is starved, over that of each query's profile.

    ``measured`` is by how much calibrated boards depart from the catalogue, by label.
    """
    moved = {label: np.exp(own[SHAPE.index("knee")]) for label, own in measured.items()}
    knees = [
        moved.get(p.gpu, 1.0) * p.spec.timing.memory_knee_mhz / p.clock_mhz
        for p in queries.profiles
    ]
    learned = np.exp(weights[len(TIME_WEIGHTS) - 1])
    return np.asarray(np.minimum(queries.of_profiles(knees) * learned, 1.0))


def memory_over_core(dram_active: Array) -> Array:
    """Return the time for memory over that in the core at the clock of the profile."""
    dram_active = np.clip(dram_active, 1e-3, 1.0)
    return np.asarray(dram_active / (_CEILING - dram_active))


_LOSS_AT_LIMIT = 0.15
"""Share of board power that is lost in the supply and in warmer silicon at the power limit:
regulators lose about a tenth, and leakage doubles in 50 K (estimate)."""
_LOSS = _LOSS_AT_LIMIT / (1.0 - _LOSS_AT_LIMIT) ** 2
SHAPE = ("p0", "leakage", "active", "ridge", "voltage", "curvature", "knee", "memory")
SHAPE_DOUBT = np.array([0.3, 1.0, 0.5, 0.1, 0.12, 1.5, 0.15, 1.0])
"""Standard errors of what the catalogue says of each, in logs (curvature: of its odds)."""
STEEPNESS_DOUBT = 0.1
"""Standard deviation of the log of the exponent ``e`` among applications: those fitted to whole
sweeps scatter by 0.07 (LLM stages) and 0.12 (HPC applications)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerShape:
    """What all applications on a GPU share; powers over the board's power limit.

    Of the power, ``p0`` is the part that no clock changes, ``leakage`` goes with the squared
    voltage, ``active`` is that of an active device, and ``memory`` that of full activity. Voltage
    rises from the clock ``ridge`` to ``voltage`` times its minimum, a share ``curvature`` of it
    quadratically; memory is starved below ``knee``. Clocks are over that of the profile.
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
        height = power_law.height(ratio, self.ridge, 1.0 - self.ridge)
        rise, bend = self.voltage - 1.0, self.curvature
        return power_law.voltage(height, rise * (1.0 - bend), rise * bend) ** 2

    def static(self, ratio: Array, sm_active: Array) -> Array:
        """Return what is drawn without work, over the power limit."""
        constant = self.p0 + self.active * sm_active
        return power_law.board_w(constant, self.squared_voltage(ratio), self.leakage)

    def power(
        self, ratio: Array, inputs: Array, dynamic: Array, exponent: Array | float = 1.0
    ) -> Array:
        """Return board power over the power limit, of activities at clocks over the profile's.

        ``dynamic`` power is that at the clock of the profile, over the power limit; ``exponent``
        says how much steeper than the law the application is.
        """
        sm_active, dram_active = inputs[:, 0], inputs[:, 3]
        memory = self.memory * dram_active
        share = memory / (memory + dynamic + 1e-9)
        core = ratio * self.squared_voltage(ratio) / self.squared_voltage(np.ones(1))
        bound = memory_over_core(dram_active)
        rate = power_law.roofline(1.0, bound, self.knee) / power_law.roofline(
            ratio, bound, self.knee
        )
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


def expected_departure(
    spec: GpuSpec, moved: Mapping[str, Array], boards: Mapping[str, str]
) -> Array:
    """Return by how much a GPU that was not seen departs from the catalogue.

    Of those that were seen, each with the same SMs counts as much as the mean of all: powers of an
    A100 PCIe are 7.0 % off so, after one point, and 10.5 % by the mean of all.

    Args:
        spec: The GPU.
        moved: Departures of those that were seen, by label, and their mean, by ``""``.
        boards: What of the catalogue those are, by label.
    """
    alike = [moved[gpu] for gpu, key in boards.items() if spec.has_sms_of(GPUS[key])]
    return np.asarray(np.mean([moved[""], *alike], axis=0))


def lossy(chip: Array) -> Array:
    """Return board power of chip power, both over the power limit."""
    return chip * (1.0 + _LOSS * chip)


def lossless(board: Array) -> Array:
    """Return chip power of board power, both over the power limit."""
    return np.asarray((np.sqrt(1.0 + 4.0 * _LOSS * board) - 1.0) / (2.0 * _LOSS))
