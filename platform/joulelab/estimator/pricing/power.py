"""Power of each group, and the clock that keeps it under the cap.

The law is that of :mod:`joulelab.core.power_law` for any processor. What is clocked are the clock
tree and, for their share of the time, busy units; energies are kept apart by what they are for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.core.point import OperatingPoint
from joulelab.core.power_law import board_w, held_clock
from joulelab.errors import ConfigError
from joulelab.estimator.pricing.roofline import GroupCosts, kernel_s, memory_side_s
from joulelab.estimator.pricing.table import Array, Flags, Index
from joulelab.hardware.processor import Processor

FIXED_SHARE = 0.18
"""Share of the power of busy units in what no clock changes of a kernel: few have work. Of 12
programs at batch 1 without gaps between kernels on H200s, power is off by 10 % with it, and high by
27 % with the simulator's 0.35 (experiments/results/h200_kernels, h200_compiled)."""
_SLOWED = 1e-3
_MET = 1e-9  # of a cap: what clocks that it holds are found to


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution of groups that a board runs together."""

    counts: Array  # how often each group runs
    # Seconds of the execution at each point, from those of each group, (points, groups).
    latency_s: Callable[[Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Groups at the clock at which they run, as arrays (points, groups)."""

    clock_mhz: Array
    waiting_mhz: Array  # clock at which the board waits for what follows
    core_s: Array
    memory_s: Array
    device_s: Array
    power_w: Array  # mean power meanwhile; that of all together is never above the cap
    compute_j: Array  # energy of operations and of the units that they keep busy
    memory_j: Array  # energy of moving bytes and of the units that this keeps busy
    static_j: Array  # energy of being powered and clocked
    slowed: Flags  # whether the cap makes them take longer, by more than a thousandth
    throttled: Flags


def requested(processor: Processor, points: Sequence[OperatingPoint]) -> tuple[Array, Array]:
    """Return core clocks (MHz) and power limits (W) of ``points``; ConfigError if off the range."""
    clocks, caps = [], []
    for point in points:
        if point.mem_clock_mhz is not None:
            raise ConfigError(
                "mem_clock_mhz must be None: the estimator knows the default memory clock alone, "
                f"got {point.mem_clock_mhz}."
            )
        clocks.append(_in_range(processor, "clock_mhz", point.sm_clock_mhz))
        caps.append(_in_range(processor, "power_limit_w", point.power_limit_w))
    return np.array(clocks, dtype=float), np.array(caps, dtype=float)


def waiting_w(processor: Processor, clock_mhz: Array, cap_w: Array) -> Array:
    """Return the power of a processor that waits, per point; ConfigError if the cap is lower."""
    least_w = static_w(processor, np.array(processor.clocks_mhz[0]))
    if (least_w >= cap_w).any():
        raise ConfigError(
            f"{processor.product_name} draws {least_w:.1f} W while it "
            f"waits at its lowest clock; the power limit must be higher, got {cap_w.min():g} W."
        )

    clock = _held(
        lambda clock, _: static_w(processor, clock), cap_w, processor.clocks_mhz[0], clock_mhz
    )
    return np.minimum(static_w(processor, clock), cap_w)


def static_w(processor: Processor, clock_mhz: Array) -> Array:
    """Return the power of being on and clocked, whatever runs."""
    power = processor.power
    clock_w = clock_mhz / 1000 * power.clock_w_per_ghz
    return board_w(power.constant_w, processor.voltage.at(clock_mhz) ** 2, clock_w)


def settle(
    costs: GroupCosts,
    processor: Processor,
    clock_mhz: Array,
    cap_w: Array,
    execution: Execution | None = None,
) -> Settled:
    """Run groups at the highest clock up to ``clock_mhz`` at which they keep to ``cap_w``.

    A board holds its mean power over many kernels and what it waits between them, so groups of one
    ``execution`` share one clock; without one, each runs alone and over and over. What exceeds the
    cap even at the lowest clock takes as long as its energy needs. Clocks and caps are of each
    point.
    """
    load = _Load(costs, processor)
    wanted = load.ceiling_mhz(np.repeat(clock_mhz[:, None], len(costs.fill), axis=1))
    together = _Together(load, wanted, execution)
    limit = together.limit_mhz(clock_mhz, cap_w, processor.clocks_mhz[0])
    return _settled(
        together.at(limit),
        np.broadcast_to(limit, wanted.shape),
        np.broadcast_to(together.stretch(limit, cap_w), wanted.shape),
        wanted,
        load.at(wanted).device_s,
    )


def _in_range(processor: Processor, name: str, value: float | None) -> float:
    lowest, default, highest = processor.clocks_mhz
    if name == "power_limit_w":
        (lowest, highest), default = processor.power_limits_w, processor.default_power_limit_w
    if value is None:
        return default
    if not lowest <= value <= highest:
        raise ConfigError(
            f"{name} of {processor.product_name} must be {lowest:g} to {highest:g}, got {value:g}."
        )
    return value


class _Load:
    """Groups on a processor at any clock; arrays are (points, groups)."""

    def __init__(self, costs: GroupCosts, processor: Processor) -> None:
        self._costs = costs
        self.processor = processor

    def at(self, clock_mhz: Array) -> "_AtClock":
        """Return the groups, each at its own clock."""
        costs, power = self._costs, self.processor.power
        core_s, turns_s = costs.core_s_mhz / clock_mhz, costs.turns_s_mhz / clock_mhz
        memory_s = memory_side_s(costs, self.processor, clock_mhz)
        work_s = kernel_s(core_s, memory_s)
        voltage2 = self.processor.voltage.at(clock_mhz) ** 2
        busy_s = costs.activity * (costs.fill * work_s + FIXED_SHARE * costs.fixed_s) + turns_s
        scale = voltage2 if self.processor.last_cache.on_core_clock else 1.0
        return _AtClock(
            clock_mhz=clock_mhz,
            core_s=core_s,
            memory_s=memory_s,
            device_s=work_s + turns_s + costs.fixed_s,
            busy_j=voltage2 * power.busy_w_per_ghz * clock_mhz / 1e3 * busy_s,
            flop_j=voltage2 * costs.flop_j,
            moved_j=scale * costs.cache_j + costs.memory_j,
            static_w=static_w(self.processor, clock_mhz),
        )

    def ceiling_mhz(self, clock_mhz: Array) -> Array:
        """Return the clock that matrix units at high activity allow, at most ``clock_mhz``."""
        timing = self.processor.timing
        if timing.tensor_ceiling_start is None:
            return clock_mhz
        share = self._costs.tensor_s_mhz / clock_mhz / self.at(clock_mhz).device_s
        beyond = np.maximum(0.0, share - timing.tensor_ceiling_start)
        ceiling = self.processor.clocks_mhz[2] - timing.tensor_ceiling_mhz * beyond
        return np.minimum(clock_mhz, np.maximum(ceiling, self.processor.clocks_mhz[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtClock:
    clock_mhz: Array
    core_s: Array
    memory_s: Array
    device_s: Array
    busy_j: Array
    flop_j: Array
    moved_j: Array
    static_w: Array

    @property
    def work_j(self) -> Array:
        return self.busy_j + self.flop_j + self.moved_j

    @property
    def power_w(self) -> Array:
        return self.static_w + self.work_j / self.device_s


class _Together:
    """Groups that share a clock: those of one execution, or each its own; points are rows."""

    def __init__(self, load: _Load, wanted_mhz: Array, execution: Execution | None) -> None:
        self._load, self._execution = load, execution
        self._wanted_mhz = wanted_mhz  # clock of each group where nothing is held
        count = wanted_mhz.shape[1]
        # How often each group runs in each set, (groups, sets).
        self._shares = np.eye(count) if execution is None else execution.counts[:, None]

    def at(self, limit_mhz: Array) -> "_AtClock":
        """Return the groups where each set is held to ``limit_mhz``."""
        return self._load.at(np.minimum(self._wanted_mhz, limit_mhz))

    def power_w(self, limit_mhz: Array) -> Array:
        """Return the mean power of each set, which runs and waits at ``limit_mhz`` at most."""
        point = self.at(limit_mhz)
        device_s = point.device_s
        energy_j, time_s = (point.power_w * device_s) @ self._shares, device_s @ self._shares
        if self._execution is None:
            return np.asarray(energy_j / time_s)
        latency_s = np.maximum(self._execution.latency_s(device_s)[:, None], time_s)
        waiting_j = (latency_s - time_s) * static_w(self._load.processor, limit_mhz)
        return np.asarray((energy_j + waiting_j) / latency_s)

    def limit_mhz(self, clock_mhz: Array, cap_w: Array, lowest_mhz: float) -> Array:
        """Return the clock to which each set is held by ``cap_w``, else the one asked for."""
        shape = (len(clock_mhz), self._shares.shape[1])
        top = np.broadcast_to(clock_mhz[:, None], shape).ravel()
        cap = np.broadcast_to(cap_w[:, None], shape).ravel()

        def power_w(tried: Array, chosen: Index) -> Array:
            clocks = top.copy()
            clocks[chosen] = tried
            return self.power_w(clocks.reshape(shape)).ravel()[chosen]

        return _held(power_w, cap, lowest_mhz, top).reshape(shape)

    def stretch(self, limit_mhz: Array, cap_w: Array) -> Array:
        """Return by how much each set must take longer where no clock keeps to ``cap_w``."""
        point = self.at(limit_mhz)
        left_j = cap_w[:, None] * (point.device_s @ self._shares)
        left_j -= (point.static_w * point.device_s) @ self._shares
        needed = np.maximum(1.0, point.work_j @ self._shares / np.maximum(left_j, 1e-30))
        is_within = self.power_w(limit_mhz) <= cap_w[:, None] * (1 + _MET)
        return np.where(is_within, 1.0, needed)


def _held(
    power_w: Callable[[Array, Index], Array], cap_w: Array, lowest_mhz: float, wanted_mhz: Array
) -> Array:
    """Return the highest clocks up to ``wanted_mhz`` that keep to the cap, else ``lowest_mhz``."""
    clock = wanted_mhz.copy()
    over = np.flatnonzero(power_w(wanted_mhz, np.arange(len(wanted_mhz))) > cap_w)
    if len(over):
        clock[over] = held_clock(
            lambda tried: power_w(tried, over), cap_w[over], lowest_mhz, wanted_mhz[over]
        )
    return clock


def _settled(
    point: _AtClock, waiting: Array, stretch: Array, wanted: Array, full_s: Array
) -> Settled:
    """Stretch what exceeds the cap even at its clock, and share out the busy units' energy."""
    device_s = point.device_s * stretch
    needed_s = point.core_s + point.memory_s
    core_share = np.divide(point.core_s, needed_s, out=np.zeros_like(wanted), where=needed_s > 0)
    return Settled(
        clock_mhz=point.clock_mhz,
        waiting_mhz=waiting,
        core_s=point.core_s,
        memory_s=point.memory_s,
        device_s=device_s,
        power_w=point.static_w + point.work_j / device_s,
        compute_j=point.flop_j + core_share * point.busy_j,
        memory_j=point.moved_j + (1 - core_share) * point.busy_j,
        static_j=point.static_w * device_s,
        throttled=(point.clock_mhz < wanted * (1 - 1e-9)) | (stretch > 1.0),
        slowed=device_s > full_s * (1 + _SLOWED),
    )
