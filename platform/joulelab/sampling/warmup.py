"""Run a load until it is steady."""

from dataclasses import dataclass
from functools import partial

from joulelab.core.clock import Clock
from joulelab.core.procedure import Procedure
from joulelab.core.steadiness import power_is_steady, temperature_is_steady, time_is_steady
from joulelab.sampling.instruments import Instruments
from joulelab.sampling.window_loop import WindowLoop

CHECK_PERIOD_S = 1.0
LOOK_BACK_S = 2.0
"""How far back unit times and power are judged."""
TEMPERATURE_LOOK_BACK_S = 10.0
_FEWEST_UNITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """What a warm-up came to.

    Attributes:
        duration_s: How long it took.
        steady: Whether unit time, power and temperature were steady at its end.
    """

    duration_s: float
    steady: bool


def warm_up(
    loop: WindowLoop, instruments: Instruments, clock: Clock, procedure: Procedure
) -> WarmUp:
    """Run units until the load is steady or ``procedure.warmup_max_s`` has passed."""
    start_s = clock.now_s()
    check_s = start_s + procedure.warmup_min_s
    steady = False
    while not steady and clock.now_s() - start_s < procedure.warmup_max_s:
        loop.run_until(partial(_has_come, clock, check_s))
        steady = _is_steady(loop, instruments, start_s, clock.now_s())
        check_s = clock.now_s() + CHECK_PERIOD_S
    return WarmUp(duration_s=clock.now_s() - start_s, steady=steady)


def _has_come(clock: Clock, at_s: float) -> bool:
    return clock.now_s() >= at_s


def _is_steady(loop: WindowLoop, instruments: Instruments, start_s: float, now_s: float) -> bool:
    recent = [unit for unit in loop.units if unit.start_s >= now_s - LOOK_BACK_S]
    units = recent if len(recent) >= _FEWEST_UNITS else loop.units[-_FEWEST_UNITS:]
    if not time_is_steady([unit.stop_s - unit.start_s for unit in units]):
        return False
    log = instruments.sampler.log()
    hottest_s = max(start_s, now_s - TEMPERATURE_LOOK_BACK_S)
    looks = [look for look in log.looks if look.at_s >= hottest_s]
    seen_c = [
        (look.at_s, celsius) for look in looks if (celsius := look.state.temperature_c) is not None
    ]
    judged = bool(seen_c) or not looks  # a recording may hold no temperature to wait for
    if judged and not temperature_is_steady([s for s, _ in seen_c], [c for _, c in seen_c]):
        return False
    if log.trace is None:
        return False
    stop_s = float(log.trace.t_s[-1])
    return power_is_steady(log.trace, max(start_s, stop_s - LOOK_BACK_S), stop_s)
