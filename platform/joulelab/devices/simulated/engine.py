"""A board through time: clock, temperature, power, and what they add up to.

Between two looks of the clock control the power is constant but for its lag, so every step is
exact however long: heat and lag decay by exponentials, energy is their integral.
"""

from dataclasses import dataclass, fields
from math import exp, inf

from joulelab.core.cost import Data, PhaseCost
from joulelab.core.device import Activity, EventReason
from joulelab.devices.simulated.board import Board, History
from joulelab.devices.simulated.clocking import FAST_S, Governor
from joulelab.devices.simulated.faults import Fault
from joulelab.devices.simulated.physics import LoadPoint, PhaseModel
from joulelab.devices.simulated.store import Settings
from joulelab.hardware import GpuSpec

_RISE_S, _FALL_S = 0.0004, 0.006
"""Electrical lag of board power (A100 and RTX 4090: rise 0.8 to 1 ms, fall 15 ms, 10 to 90 %)."""
_LAG_W = 0.5
"""Below this distance the lag is over."""
_LOOK_BACK_S = 0.05
_WARM_UP_S, _COUNTED_S = 2.0, 2.0  # of a steady load
_THERMAL = EventReason.SW_THERMAL | EventReason.HW_THERMAL
UNITS = tuple(field.name for field in fields(Activity))
"""Names of the units whose activity is counted."""


class Engine:
    """State of one board, advanced on request; before ``time_s`` it has rested."""

    def __init__(self, spec: GpuSpec, board: Board, time_s: float) -> None:
        self.spec = spec
        self.board = board
        self.time_s = time_s
        self.work = 0.0
        self.power_cap_s = 0.0
        self.thermal_s = 0.0
        self.has_context = False
        self.faults: tuple[Fault, ...] = ()
        self.governor = Governor(spec, board)
        self.history = History(time_s, spec.power.idle_w, spec.power.memory_idle_w)
        self._unused = PhaseModel(spec, None, voltage_scale=board.voltage_scale)
        self._model = self._unused
        self._idle_since_s: float | None = -inf
        self._control_s = time_s
        self._nodes_k = [r * spec.power.idle_w for r in spec.thermal.resistance_k_per_w]
        self._power_w = spec.power.idle_w
        self._activity_s = dict.fromkeys(UNITS, 0.0)
        self._point = self._unused.at(spec.idle_clock_mhz, spec.mem_clocks_mhz[0])
        self._counted_s = time_s
        self._ambient_c = spec.thermal.ambient_c
        self._foreign_w = 0.0
        self._is_capped = False
        self._is_hot = False

    @property
    def model(self) -> PhaseModel | None:
        """What runs; ``None`` for nothing."""
        return None if self._model is self._unused else self._model

    @property
    def duration_s(self) -> float:
        """Time of one execution of what runs, at the present clock."""
        return self._point.duration_s

    @property
    def activity(self) -> Activity:
        """Activity of the units now, on the average over one execution of what runs."""
        return self._point.activity

    @property
    def temperature_c(self) -> float:
        """Die temperature."""
        return self._ambient_c + sum(self._nodes_k)

    def adopt(self, settings: Settings, *, at_once: bool = False) -> None:
        """Take over what another process, or this one, wrote to the driver's state."""
        self.faults = settings.faults
        self.governor.adopt(settings, self.time_s, at_once=at_once)
        self._control_s = self.time_s

    def run(self, model: PhaseModel | None) -> None:
        """Execute ``model`` over and over from now on; ``None`` to stop."""
        self._model = self._unused if model is None else model
        self._idle_since_s = self.time_s if model is None else None
        self._control_s = min(self._control_s, self.time_s + FAST_S)
        if self.governor.resting:
            self._control_s = self.time_s
        self._move_to_point()

    def hold_context(self, held: bool) -> None:
        """Let a process open (or give back) the device."""
        self.has_context = held
        self._control_s = self.time_s
        if not held and self._idle_since_s is not None:
            self._idle_since_s = self.time_s

    def advance(self, until_s: float) -> None:
        """Let time pass up to ``until_s``; nothing happens if that is past already."""
        while self.time_s < until_s:
            if self.time_s >= self._control_s:
                self._control()
            self._step_to(min(until_s, self._control_s))

    def activity_s(self) -> dict[str, float]:
        """Return the time that each unit was active so far, in seconds."""
        self._count_activity()
        return dict(self._activity_s)

    def shown_w(self, point: LoadPoint) -> float:
        """Return what the sensor shows at ``point`` and the present temperature."""
        return self.board.gain * self._true_w(point) + self.board.offset_w

    def _true_w(self, point: LoadPoint) -> float:
        warmth_k = self.temperature_c - self.spec.thermal.reference_c
        growth = exp(self.spec.power.leakage_per_k * warmth_k) - 1.0
        leakage_w = self.board.leakage_scale * point.leakage_w * growth
        return point.power_w + leakage_w + self._foreign_w

    def _control(self) -> None:
        holding = tuple(fault for fault in self.faults if fault.holds(self.time_s))
        self._ambient_c = self.spec.thermal.ambient_c
        self._foreign_w = 0.0
        for fault in holding:
            if fault.kind == "throttle" and fault.ambient_c is not None:
                self._ambient_c = fault.ambient_c
            if fault.kind == "foreign_process":
                self._foreign_w += fault.power_w
        mem_mhz = self.governor.mem_clock_mhz
        wait_s = self.governor.control(
            self.time_s,
            idle_since_s=self._idle_since_s,
            has_context=self.has_context or self._foreign_w > 0,
            temperature_c=self.temperature_c,
            faults=holding,
            load_at=lambda clock_mhz: self._model.at(clock_mhz, mem_mhz),
            shown_w=self.shown_w,
            mean_shown_w=self._mean_shown_w,
        )
        self._is_capped = EventReason.SW_POWER_CAP in self.governor.reasons
        self._is_hot = bool(_THERMAL & self.governor.reasons)
        due_s = self.governor.switch_due_s()
        self._control_s = self.time_s + wait_s
        if due_s is not None:
            self._control_s = min(self._control_s, max(due_s, self.time_s + 1e-4))
        self._move_to_point()

    def _mean_shown_w(self) -> float:
        true_w = self.history.power_w(self.time_s, _LOOK_BACK_S)
        return self.board.gain * true_w + self.board.offset_w

    def _move_to_point(self) -> None:
        point = self._model.at(self.governor.clock_mhz, self.governor.mem_clock_mhz)
        if point is not self._point:
            self._count_activity()
            self._point = point

    def _count_activity(self) -> None:
        passed_s = self.time_s - self._counted_s
        self._counted_s = self.time_s
        for unit in UNITS:
            self._activity_s[unit] += passed_s * (getattr(self._point.activity, unit) or 0.0)

    def _step_to(self, stop_s: float) -> None:
        target_w = self._true_w(self._point)
        if self.governor.resting:
            target_w = self.spec.power.idle_w + self._foreign_w
        behind_w = self._power_w - target_w
        energy_j = 0.0
        if behind_w > _LAG_W or behind_w < -_LAG_W:
            lag_s = _FALL_S if behind_w > 0 else _RISE_S
            stop_s = min(stop_s, self.time_s + 2 * lag_s)
            step_s = stop_s - self.time_s
            left = exp(-step_s / lag_s)
            energy_j = behind_w * lag_s * (1.0 - left)
            self._power_w = target_w + behind_w * left
        else:
            self._power_w = target_w
        step_s = stop_s - self.time_s
        energy_j += target_w * step_s
        self._warm(energy_j / step_s, step_s)
        if self._idle_since_s is None:
            self.work += step_s / self._point.duration_s
        if self._is_capped:
            self.power_cap_s += step_s
        if self._is_hot:
            self.thermal_s += step_s
        self.time_s = stop_s
        self.history.append(self.time_s, energy_j, self._point.memory_w * step_s)

    def _warm(self, power_w: float, step_s: float) -> None:
        thermal = self.spec.thermal
        for node, tau_s in enumerate(thermal.time_constant_s):
            steady_k = thermal.resistance_k_per_w[node] * power_w
            above_k = self._nodes_k[node] - steady_k
            self._nodes_k[node] = steady_k + above_k * exp(-step_s / tau_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """A phase executed over and over at the driver's own clocks."""

    time_per_unit_s: float
    energy_per_unit_j: float  # energy per unit of work, idle power included
    power_w: float
    clock_mhz: float


def steady_load(
    spec: GpuSpec,
    phase: PhaseCost,
    *,
    data: Data = "random",
    board: Board | None = None,
) -> SteadyLoad:
    """Return what ``phase`` costs on a board of kind ``spec`` after a warm-up.

    By default the board is exactly its kind. Raises ConfigError if a kernel needs a pipe that the
    GPU lacks.
    """
    engine = Engine(spec, board or Board(seed=0), 0.0)
    engine.adopt(Settings(), at_once=True)
    engine.hold_context(True)
    scale = 1.0 if board is None else board.voltage_scale
    engine.run(PhaseModel(spec, phase, data=data, voltage_scale=scale))
    engine.advance(_WARM_UP_S)
    done, stop_s = engine.work, _WARM_UP_S + _COUNTED_S
    engine.advance(stop_s)
    work = (engine.work - done) * phase.work
    power_w = engine.history.power_w(stop_s, _COUNTED_S)
    return SteadyLoad(
        time_per_unit_s=_COUNTED_S / work,
        energy_per_unit_j=power_w * _COUNTED_S / work,
        power_w=power_w,
        clock_mhz=float(engine.governor.clock_mhz),
    )
