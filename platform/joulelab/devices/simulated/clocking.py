"""How the simulated driver chooses the SM clock: locks, power cap, temperature, idleness."""

from bisect import bisect_left
from collections.abc import Callable
from math import ceil

from joulelab.core.device import EventReason
from joulelab.core.power_law import CAP_SHARE
from joulelab.devices.simulated.board import Board
from joulelab.devices.simulated.faults import Fault
from joulelab.devices.simulated.physics import LoadPoint
from joulelab.devices.simulated.store import Settings
from joulelab.hardware import GpuSpec

FAST_S, SLOW_S = 0.02, 0.1
"""Control period while something moves, and while nothing does."""

_IDLE_S = 5.0
"""Time without load or context after which an unlocked device rests."""
_THERMAL_STEP_S = 0.1
_THERMAL_HYSTERESIS_K = 2.0


class Governor:
    """The clock of one board."""

    def __init__(self, spec: GpuSpec, board: Board) -> None:
        self._spec = spec
        self._board = board
        self._clocks = spec.sm_clocks_mhz
        self._floor = self._index(0.5 * spec.voltage.ridge_mhz)
        self._lock: tuple[int, int] | None = None
        self._pending: tuple[float, tuple[int, int] | None] | None = None
        self._num_changes = 0
        self._limited: int | None = None
        self._thermal = 0
        self._thermal_due_s = 0.0
        self.clock_mhz = spec.idle_clock_mhz
        self.mem_clock_mhz = spec.mem_clocks_mhz[0]
        self.limit_w = spec.default_power_limit_w
        self.reasons = EventReason.IDLE
        self.resting = True

    def adopt(self, settings: Settings, time_s: float, *, at_once: bool = False) -> None:
        """Take note of ``settings``; a new clock takes effect after its latency."""
        self.limit_w = settings.power_limit_w or self._spec.default_power_limit_w
        highest = self._spec.mem_clocks_mhz[0]
        self.mem_clock_mhz = settings.locked_mem_mhz[1] if settings.locked_mem_mhz else highest
        wanted = settings.locked_sm_mhz
        if wanted == (self._pending[1] if self._pending else self._lock):
            return
        self._pending = (time_s if at_once else time_s + self._latency_s(settings, time_s), wanted)

    def switch_due_s(self) -> float | None:
        """When a clock change under way takes effect; ``None`` if there is none."""
        return self._pending[0] if self._pending else None

    def control(
        self,
        time_s: float,
        *,
        idle_since_s: float | None,
        has_context: bool,
        temperature_c: float,
        faults: tuple[Fault, ...],
        load_at: Callable[[int], LoadPoint],
        shown_w: Callable[[LoadPoint], float],
        mean_shown_w: Callable[[], float],
    ) -> float:
        """Choose the clock; return in how many seconds to look again.

        Nothing has run since ``idle_since_s``; ``None`` under load. The sensor would show
        ``shown_w`` of a point now, and has shown ``mean_shown_w`` over the last 50 ms.
        """
        if self._pending and self._pending[0] <= time_s:
            self._lock, self._pending = self._pending[1], None
        self.resting = (
            idle_since_s is not None
            and not has_context
            and self._lock is None
            and time_s - idle_since_s >= _IDLE_S
        )
        if self.resting:
            self.clock_mhz, self.reasons = self._spec.idle_clock_mhz, EventReason.IDLE
            return SLOW_S
        top, reasons = self._ceiling(time_s, temperature_c, faults, load_at)
        idle = idle_since_s is not None
        moving = self._cap(top, load_at, shown_w, mean_shown_w)
        self.reasons = reasons | (EventReason.IDLE if idle else EventReason.NONE)
        if self._limited is not None:
            self.reasons |= EventReason.SW_POWER_CAP
        self.clock_mhz = self._clocks[top if self._limited is None else self._limited]
        return FAST_S if moving or self._pending else SLOW_S

    def _ceiling(
        self,
        time_s: float,
        temperature_c: float,
        faults: tuple[Fault, ...],
        load_at: Callable[[int], LoadPoint],
    ) -> tuple[int, EventReason]:
        """Return the grid index of the highest clock that anything but the cap allows."""
        reasons = EventReason.NONE
        low, high = self._lock or (0, self._clocks[0])
        top = self._index(max(low, min(self._spec.default_clock_mhz, high)))
        tensor = self._tensor_ceiling(load_at(self._clocks[top]))
        if tensor > top:
            top, reasons = tensor, reasons | EventReason.SW_POWER_CAP
        for fault in faults:
            if fault.kind == "throttle" and fault.clock_mhz is not None:
                forced = self._index(fault.clock_mhz)
                if forced > top:
                    top, reasons = forced, reasons | fault.event
        hot = self._thermal_steps(time_s, temperature_c)
        if hot:
            top, reasons = min(top + hot, len(self._clocks) - 1), reasons | EventReason.SW_THERMAL
        if temperature_c > self._spec.thermal.slowdown_c:
            top = max(top, self._index(self._clocks[top] / 2))
            reasons |= EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN
        return top, reasons

    def _tensor_ceiling(self, point: LoadPoint) -> int:
        timing = self._spec.timing
        if timing.tensor_ceiling_start is None:
            return 0
        beyond = (point.activity.tensor_active or 0.0) - timing.tensor_ceiling_start
        return self._index(self._clocks[0] - timing.tensor_ceiling_mhz * max(0.0, beyond))

    def _thermal_steps(self, time_s: float, temperature_c: float) -> int:
        if time_s >= self._thermal_due_s:
            limit_c = self._spec.thermal.max_operating_c
            if temperature_c > limit_c:
                self._thermal = min(self._thermal + 1, len(self._clocks) - 1)
            elif self._thermal and temperature_c < limit_c - _THERMAL_HYSTERESIS_K:
                self._thermal -= 1
            self._thermal_due_s = time_s + _THERMAL_STEP_S
        return self._thermal

    def _cap(
        self,
        top: int,
        load_at: Callable[[int], LoadPoint],
        shown_w: Callable[[LoadPoint], float],
        mean_shown_w: Callable[[], float],
    ) -> bool:
        """Move a third of the way to the largest clock under the limit; return whether it moves.

        An H200 under a sudden GEMM draws 845 W for 60 ms and 764 W for the next 100.
        """
        now = top if self._limited is None else max(top, self._limited)
        floor = max(self._floor, top)

        def fits(index: int) -> bool:
            return shown_w(load_at(self._clocks[index])) <= CAP_SHARE * self.limit_w

        if fits(now):
            goal = _first(fits, top, now)
        elif now < floor and self._limited is None and mean_shown_w() <= self.limit_w:
            return True
        else:
            goal = _first(fits, min(now, floor), floor)
        step = ceil(abs(goal - now) / 3)
        then = now + step if goal > now else now - step
        self._limited = then if then > top else None
        return goal != now

    def _index(self, clock_mhz: float) -> int:
        """Return the grid index of the highest clock at or below ``clock_mhz``."""
        clocks = self._clocks
        return _first(lambda index: clocks[index] <= clock_mhz, 0, len(clocks) - 1)

    def _latency_s(self, settings: Settings, time_s: float) -> float:
        for fault in settings.faults:
            if fault.kind == "slow_clock" and fault.holds(time_s):
                return fault.latency_s
        self._num_changes += 1
        wanted = settings.locked_sm_mhz
        target_mhz = wanted[1] if wanted else self._spec.default_clock_mhz
        median_s = self._spec.timing.switch_latency_s
        return self._board.switch_latency_s(median_s, target_mhz, self._num_changes)


def _first(holds: Callable[[int], bool], start: int, stop: int) -> int:
    """Return the first index from ``start`` where ``holds``, which stays so; else ``stop``."""
    return start + bisect_left(range(start, stop), True, key=holds)
