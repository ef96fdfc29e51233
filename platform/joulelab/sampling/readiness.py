"""When a device can be measured: cool, at its operating point, and steady under load.

And which points may be measured quickly, since what ran before has warmed it up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from joulelab.core.clock import Clock
from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.device import DeviceState
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ, POWER_LIMIT_TOLERANCE_W
from joulelab.core.steadiness import power_is_steady, temperature_is_steady, time_is_steady
from joulelab.core.trace import PowerTrace
from joulelab.devices.base import Device
from joulelab.errors import DeviceHotError
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.sampler import SampleLog
from joulelab.sampling.window_loop import TimeSpan, WindowLoop

_LOOK_S = 0.5


def cool_down(device: Device, *, below_c: float, limit_s: float) -> float:
    """Wait until the board is below ``below_c``; return the seconds that took.

    Raises DeviceHotError if it is not after ``limit_s``, or its temperature cannot be read.
    """
    clock = device.clock
    start_s = clock.now_s()
    while (temperature_c := _temperature_c(device)) >= below_c:
        waited_s = clock.now_s() - start_s
        if waited_s >= limit_s:
            raise DeviceHotError(
                f"The board was to be below {below_c:g} C and is at {temperature_c:g} C after "
                f"{waited_s:.0f} s; allow more time or a higher temperature, or cool it better."
            )
        clock.sleep_s(min(_LOOK_S, limit_s - waited_s))
    return clock.now_s() - start_s


def _temperature_c(device: Device) -> float:
    temperature_c = device.read_brief_state().temperature_c
    if temperature_c is None:
        raise DeviceHotError(
            "The temperature of the board cannot be read, so there is no telling when it has "
            "cooled down; leave start_below_c out."
        )
    return temperature_c


READ_BACK_PERIOD_S = 0.05
READ_BACK_PATIENCE_S = 2.0
"""An idle device may park below a locked clock, so the wait for its read-back is limited; what
the clock is under load is for the validity contract to judge."""


def settle(device: Device, point: OperatingPoint, *, wait_s: float) -> None:
    """Wait until ``point`` reads back twice in a row, and then ``wait_s`` longer."""
    clock = device.clock
    give_up_s = clock.now_s() + READ_BACK_PATIENCE_S
    in_a_row = 0
    while in_a_row < 2 and clock.now_s() < give_up_s:
        in_a_row = in_a_row + 1 if _reads_back(device.read_brief_state(), point) else 0
        clock.sleep_s(READ_BACK_PERIOD_S)
    clock.sleep_s(wait_s)


def _reads_back(state: DeviceState, point: OperatingPoint) -> bool:
    pairs = (
        (state.sm_clock_mhz, point.sm_clock_mhz, CLOCK_TOLERANCE_MHZ),
        (state.mem_clock_mhz, point.mem_clock_mhz, CLOCK_TOLERANCE_MHZ),
        (state.power_limit_w, point.power_limit_w, POWER_LIMIT_TOLERANCE_W),
    )
    return all(
        wanted is None or seen is None or abs(seen - wanted) <= tolerance
        for seen, wanted, tolerance in pairs
    )


CHECK_PERIOD_S = 1.0
LOOK_BACK_S = 2.0
"""How far back unit times and power are judged."""
QUICK_LOOK_BACK_S = 0.3
"""The same right after another point: 15 of an H100's samples of 20 ms."""
COOLING_S, COOLING_RATIO = 1.2, 1.2
"""So long a phase is warmed up at least that follows one of so many times its power: the die is too
hot then, in every block alike."""
TEMPERATURE_LOOK_BACK_S = 10.0
_FEWEST_UNITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """What a warm-up came to."""

    duration_s: float
    steady: bool  # whether unit time, power and temperature were steady at its end
    even: bool  # whether unit time and power were, however the temperature still moved
    timed: bool = True  # whether it had units enough to show whether their times are even

    def confirmed(self, units: Sequence[TimeSpan]) -> "WarmUp":
        """Return what it came to by the ``units`` in the windows after it, if it had too few."""
        if self.timed:
            return self
        even = self.even and time_is_steady([unit.time_per_work_s for unit in units])
        return replace(self, steady=self.steady and even, even=even)


def warm_up(
    loop: WindowLoop, instruments: Instruments, clock: Clock, procedure: Procedure
) -> WarmUp:
    """Run units until the load is steady or ``procedure.warmup_max_s`` has passed.

    Right after another point temperature is not waited for: results bear that it is still moving.
    Nor are units that take as long as a window repeated there until their times show to be even:
    those in the windows do.
    """
    start_s = clock.now_s()
    check_s = start_s + procedure.warmup_min_s
    give_up_s = start_s + procedure.warmup_max_s
    follows = procedure.pace == "quick"
    period_s = procedure.warmup_min_s if follows else CHECK_PERIOD_S
    steady = even = False
    timed = True
    while not steady and (clock.now_s() < give_up_s or not loop.units):
        loop.run_until(partial(_has_come, clock, check_s), edge_s=check_s if follows else inf)
        log, now_s = instruments.sampler.log(), clock.now_s()
        timed = len(loop.units) >= _FEWEST_UNITS
        if follows:
            even = _is_even(loop, log.trace, start_s, QUICK_LOOK_BACK_S, timed=timed)
            steady = even and not _cools(log.trace, start_s, now_s, procedure.sample_lag_s)
        else:
            even = _is_even(loop, log.trace, start_s, LOOK_BACK_S)
            steady = even and _keeps_temperature(log, start_s, now_s)
        sooner_s = loop.unit_s / 2 if follows else 0.0  # at the nearest end of a unit
        check_s = min(clock.now_s() + period_s - sooner_s, give_up_s)
    if not (even or follows):
        # Of one that was cut short its late half tells: first runs of a load are seldom even.
        late_s = min(LOOK_BACK_S, (now_s - start_s) / 2)
        even = _is_even(loop, log.trace, start_s, late_s)
    return WarmUp(duration_s=clock.now_s() - start_s, steady=steady, even=even, timed=timed)


def _has_come(clock: Clock, at_s: float) -> bool:
    return clock.now_s() >= at_s


def _cools(trace: PowerTrace | None, start_s: float, now_s: float, lag_s: float) -> bool:
    """Whether the die is still much hotter than what runs makes it, from what ran before.

    Samples come ``lag_s`` late: what they show at the start is of before it.
    """
    if trace is None or now_s >= start_s + COOLING_S:
        return False
    shown_s = start_s + lag_s
    before_w = trace.power_w[(trace.t_s <= shown_s) & (trace.t_s > shown_s - QUICK_LOOK_BACK_S)]
    now_w = trace.power_w[trace.t_s > now_s - QUICK_LOOK_BACK_S]
    return bool(before_w.size and now_w.size and before_w.mean() > COOLING_RATIO * now_w.mean())


def _keeps_temperature(log: SampleLog, start_s: float, now_s: float) -> bool:
    hottest_s = max(start_s, now_s - TEMPERATURE_LOOK_BACK_S)
    looks = [look for look in log.looks if look.at_s >= hottest_s]
    seen_c = [
        (look.at_s, celsius) for look in looks if (celsius := look.state.temperature_c) is not None
    ]
    judged = bool(seen_c) or not looks  # a recording may hold no temperature to wait for
    return not judged or temperature_is_steady([s for s, _ in seen_c], [c for _, c in seen_c])


def _is_even(
    loop: WindowLoop, trace: PowerTrace | None, start_s: float, back_s: float, *, timed: bool = True
) -> bool:
    """Whether power was steady of late, and so were the times of units if they can tell."""
    if trace is None:
        return False
    stop_s = float(trace.t_s[-1])
    even = power_is_steady(trace, max(start_s, stop_s - back_s), stop_s)
    return even and (not timed or _has_even_times(loop, back_s))


def _has_even_times(loop: WindowLoop, back_s: float) -> bool:
    recent = [unit for unit in loop.units if unit.start_s >= loop.units[-1].stop_s - back_s]
    units = recent if len(recent) >= _FEWEST_UNITS else loop.units[-_FEWEST_UNITS:]
    return time_is_steady([unit.time_per_work_s for unit in units])


FOLLOWS_WITHIN_S = 30.0
"""Longest rest, such as loading weights, after which an idle window is not due anew; chosen."""


class Following:
    """Remembers what ran last on a board, and which settings of programs do not run evenly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ran: str | None = None  # the workload, if it was measured
        self._ended_s = -inf
        self._is_even: dict[str, bool] = {}  # by phase
        self._uneven: set[tuple[str, tuple[tuple[str, KnobValue], ...], str]] = set()

    def procedures(
        self, asked: Configuration, phases: Sequence[str], procedure: Procedure
    ) -> Iterator[tuple[Procedure, list[str]]]:
        """Yield how to measure which phases of ``asked``, and then how what is not final then."""
        key = asked.program
        even = [phase for phase in phases if (*key, phase) not in self._uneven]
        follows = self._ran == asked.workload or not procedure.idle_s
        if procedure.pace == "quick" and even and follows:
            yield procedure, even
        yield replace(procedure, pace="reference"), list(phases)

    def prepared(self, procedure: Procedure) -> Procedure:
        """Return how to measure what is ready now, after whatever rest that took the board."""
        self._is_even = {}
        rested_s = self._clock.now_s() - self._ended_s
        is_warm = rested_s <= FOLLOWS_WITHIN_S or not procedure.idle_s
        if procedure.pace == "quick" and is_warm:
            return procedure.following(rested_s)
        return replace(procedure, pace="reference")

    def next_phase(self, procedure: Procedure) -> Procedure:
        """Return how to measure the next phase of a program that has just run."""
        return procedure.following() if procedure.pace == "quick" else procedure

    def warmed_up(self, phase: str, warmup: WarmUp) -> None:
        """Note how the warm-up of a phase ended."""
        self._is_even[phase] = warmup.even

    def ended(self, asked: Configuration, records: Sequence[Record]) -> None:
        """Note that ``asked`` has just run; phases that were not even are not tried quickly again.

        One whose temperature alone still moved was even all the same.
        """
        has_run = all(record.measurement.windows for record in records)
        self._ran = asked.workload if has_run else None
        self._ended_s = self._clock.now_s()
        for phase, is_even in self._is_even.items():
            note = self._uneven.discard if is_even else self._uneven.add
            note((*asked.program, phase))


def is_final(record: Record) -> bool:
    """Whether a measurement need not be made again from rest."""
    return not why_again(record)


def why_again(record: Record) -> str:
    """Say why a measurement is made again from rest; nothing if it need not be."""
    measurement = record.measurement
    if measurement.pace != "quick" or not measurement.windows:
        return ""
    if not measurement.settled:
        return measurement.reason
    if measurement.observed.warmup_steady is False:
        return f"power or pace was not even after {measurement.observed.warmup_s:.1f} s"
    return ""
