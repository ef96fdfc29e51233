"""Are the settings in force those that were asked for, and no others?

A knob that was not asked for must be at the driver's default: a lock or a power limit that somebody
else left would pass for the driver's own behaviour.
"""

from collections.abc import Sequence

from joulelab.core.device import Capabilities, DeviceState, EventReason, Look
from joulelab.core.measurement import Finding
from joulelab.core.point import OperatingPoint

CLOCK_TOLERANCE_MHZ = 15
POWER_LIMIT_TOLERANCE_W = 0.5
"""Drivers round a power limit; two limits closer than this are one."""
MAX_UNEXPLAINED_SHARE = 0.05
"""Share of the looks at which a clock may be low without a reason, as in the middle of a step."""

# What a lock itself looks like excuses no low clock.
_NO_EXCUSE = EventReason.APPLICATION_CLOCKS


def same_limit(one_w: float | None, other_w: float | None) -> bool:
    """Whether two power limits are one, or one of them is not known."""
    if one_w is None or other_w is None:
        return True
    return abs(one_w - other_w) <= POWER_LIMIT_TOLERANCE_W


def wrong_settings(
    state: DeviceState, point: OperatingPoint, capabilities: Capabilities
) -> list[str]:
    """Name what ``state`` tells to be in force other than ``point``; empty if nothing.

    A knob that is ``None`` in ``point`` must be at the driver's default, the power limit at that of
    ``capabilities``.
    """
    wrong = []
    for name, knob in (("SM", "sm_clock_mhz"), ("memory", "mem_clock_mhz")):
        held_mhz, wanted_mhz = getattr(state.held, knob, None), getattr(point, knob)
        if state.held is not None and held_mhz != wanted_mhz:
            wrong.append(
                f"the {name} clock is {_locked(held_mhz)}, but should be {_locked(wanted_mhz)}"
            )
    limit_w = point.power_limit_w or capabilities.default_power_limit_w
    if not same_limit(state.power_limit_w, limit_w):
        wrong.append(f"the power limit is {state.power_limit_w:g} W, but should be {limit_w:g} W")
    if limit_w is None and state.held is not None and state.held.power_limit_w is not None:
        wrong.append(f"a power limit of {state.held.power_limit_w:g} W is set, but should not be")
    return wrong


def setting_findings(
    looks: Sequence[Look],
    point: OperatingPoint,
    capabilities: Capabilities,
    start_s: float,
    stop_s: float,
) -> tuple[Finding, ...]:
    """Judge whether ``point``, and nothing else, was in force from ``start_s`` to ``stop_s``.

    Where the driver does not tell its locks, a lock shows in a clock that stays below that of an
    unlocked board although the driver names nothing that holds it down.
    """
    states = [look.state for look in looks if start_s <= look.at_s <= stop_s]
    wrong = [each for state in states for each in wrong_settings(state, point, capabilities)]
    for name, knob in (("SM", "sm_clock_mhz"), ("memory", "mem_clock_mhz")):
        unlocked_mhz = getattr(capabilities, f"unlocked_{knob}")
        if getattr(point, knob) is None and unlocked_mhz is not None:
            low_mhz = unexplained_mhz(states, knob, unlocked_mhz)
            if len(low_mhz) > MAX_UNEXPLAINED_SHARE * len(states):
                wrong.append(
                    f"the {name} clock was at {min(low_mhz)} MHz, and nothing that the driver "
                    f"names kept it below {unlocked_mhz} MHz: it must be locked"
                )
    if not wrong:
        return ()
    return (foreign_setting(f"{'; '.join(dict.fromkeys(wrong))}."),)


def foreign_setting(what: str) -> Finding:
    """Return the finding that a setting was in force that was not asked for."""
    return Finding(reason="foreign_setting", detail=what[0].upper() + what[1:])


def unexplained_mhz(states: Sequence[DeviceState], knob: str, unlocked_mhz: int) -> list[int]:
    """Return the clocks below ``unlocked_mhz`` for which the driver names no reason."""
    return [
        clock_mhz
        for state in states
        if (clock_mhz := getattr(state, knob)) is not None
        and clock_mhz < unlocked_mhz - CLOCK_TOLERANCE_MHZ
        and not state.event_reasons & ~_NO_EXCUSE
    ]


def _locked(clock_mhz: int | None) -> str:
    return "unlocked" if clock_mhz is None else f"locked at {clock_mhz} MHz"
