"""The validity contract: the clauses that a measurement must fulfil to be believed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

import numpy as np

from joulelab.core.device import DeviceState, EventReason, Look
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, InvalidReason, Observed
from joulelab.core.point import OperatingPoint
from joulelab.core.settings import CLOCK_TOLERANCE_MHZ
from joulelab.core.statistics import mean_of
from joulelab.core.steadiness import MAX_WINDOW_TREND, window_trend
from joulelab.core.trace import PowerTrace

MIN_RESIDENCY = 0.95
MAX_THROTTLE_SHARE = 0.01
"""Share of the time for which heat, or the power cap, may set the clock."""
MAX_DRIFT_C = 5.0
MAX_DISAGREEMENT = 0.02
MAX_LOOK_GAP_S = 1.5
"""A sampler that costs too much looks once a second at the slowest."""
MIN_SAMPLE_GAP_S = 0.25
"""Gaps between power samples shorter than this are the sensor's own."""

_CAP = EventReason.SW_POWER_CAP | EventReason.HW_POWER_BRAKE
_THERMAL = EventReason.SW_THERMAL | EventReason.HW_THERMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How the device behaved while the windows ran, condensed from the looks at it."""

    observed: Observed  # what is stored of it with the result
    # Share of the looks near the requested memory clock; None without one.
    mem_residency: float | None
    longest_gap_s: float  # longest time without a look, ends of the interval included


def conduct_of(
    looks: Sequence[Look], point: OperatingPoint, start_s: float, stop_s: float
) -> Conduct | None:
    """Condense the looks between two instants; ``None`` if there are none.

    ``point`` was requested. Looks are in order; those outside the interval bound its throttle
    counters.
    """
    inside = [look for look in looks if start_s <= look.at_s <= stop_s]
    if not inside:
        return None
    states = [look.state for look in inside]
    mem_clocks_mhz = [s.mem_clock_mhz for s in states if s.mem_clock_mhz is not None]
    limits_w = [s.power_limit_w for s in states if s.power_limit_w is not None]
    observed = Observed(
        sm_clock_mhz=median(state.sm_clock_mhz for state in states),
        clock_residency=_residency([state.sm_clock_mhz for state in states], point.sm_clock_mhz),
        mem_clock_mhz=median(mem_clocks_mhz) if mem_clocks_mhz else None,
        temperature_start_c=states[0].temperature_c,
        temperature_stop_c=states[-1].temperature_c,
        power_cap_share=_held_share(looks, start_s, stop_s, _CAP, attrgetter("power_cap_s")),
        thermal_share=_held_share(looks, start_s, stop_s, _THERMAL, attrgetter("thermal_s")),
        memory_used_b=_most_memory_b(looks, start_s, stop_s),
        power_limit_w=median(limits_w) if limits_w else None,
        gpu_utilization=mean_of([state.gpu_utilization for state in states]),
        memory_utilization=mean_of([state.memory_utilization for state in states]),
    )
    at_s = [start_s, *(look.at_s for look in inside), stop_s]
    return Conduct(
        observed=observed,
        mem_residency=_residency(mem_clocks_mhz, point.mem_clock_mhz),
        longest_gap_s=float(np.diff(at_s).max()),
    )


def conduct_findings(conduct: Conduct, point: OperatingPoint) -> tuple[Finding, ...]:
    """Judge clocks, throttling, temperature and gaps.

    A requested power limit is the treatment, so it may bind. Without a requested clock the
    default power cap is part of the driver's own behaviour, so it may bind too. Heat may not.
    """
    found: list[Finding] = []
    observed = conduct.observed
    thermal_share, cap_share = observed.thermal_share or 0.0, observed.power_cap_share or 0.0
    cap_is_treatment = point.power_limit_w is not None or point.sm_clock_mhz is None
    throttled = thermal_share > MAX_THROTTLE_SHARE
    if throttled:
        found.append(_throttled("throttled", "heat", thermal_share))
    if not cap_is_treatment and cap_share > MAX_THROTTLE_SHARE:
        throttled = True
        found.append(_throttled("power_capped", "the power cap", cap_share))
    throttled |= point.power_limit_w is not None and cap_share > MAX_THROTTLE_SHARE
    for name, wanted_mhz, residency, seen_mhz in (
        ("SM", point.sm_clock_mhz, observed.clock_residency, observed.sm_clock_mhz),
        ("memory", point.mem_clock_mhz, conduct.mem_residency, observed.mem_clock_mhz),
    ):
        if wanted_mhz is None or residency is None or seen_mhz is None:
            continue
        if residency < MIN_RESIDENCY and not (throttled and seen_mhz <= wanted_mhz):
            found.append(
                Finding(
                    reason="clock_not_held",
                    detail=f"The {name} clock must be within {CLOCK_TOLERANCE_MHZ} MHz of "
                    f"{wanted_mhz} MHz in {MIN_RESIDENCY:.0%} of the looks, but was in "
                    f"{residency:.0%} (median {seen_mhz:g} MHz).",
                )
            )
    found += _drift_findings(observed.temperature_start_c, observed.temperature_stop_c)
    if conduct.longest_gap_s > MAX_LOOK_GAP_S:
        found.append(_gap("looks at the device", conduct.longest_gap_s, MAX_LOOK_GAP_S))
    return tuple(found)


def _drift_findings(start_c: float | None, stop_c: float | None) -> list[Finding]:
    if start_c is None or stop_c is None or abs(stop_c - start_c) <= MAX_DRIFT_C:
        return []
    return [
        Finding(
            reason="thermal_drift",
            detail=f"Temperature must stay within {MAX_DRIFT_C:g} C over the windows, but "
            f"went from {start_c:g} to {stop_c:g} C; a longer warm-up helps.",
        )
    ]


def unseen_finding() -> Finding:
    """Tell that not one look at the device fell into the windows."""
    return Finding(
        reason="sample_gap",
        detail="Clocks and temperatures must be seen while the windows run, but no look fell "
        "into them; longer windows help.",
    )


def trace_findings(trace: PowerTrace | None, start_s: float, stop_s: float) -> tuple[Finding, ...]:
    """Judge whether power samples cover the windows without a gap."""
    if trace is None or not trace.spans(start_s, stop_s):
        seen = "none came"
        if trace is not None:
            seen = f"they begin at {trace.t_s[0]:.2f} and end at {trace.t_s[-1]:.2f} s"
        return (
            Finding(
                reason="sample_gap",
                detail=f"Power samples must span {start_s:.2f} to {stop_s:.2f} s, but {seen}.",
            ),
        )
    allowed_s = max(MIN_SAMPLE_GAP_S, 5 * float(np.median(np.diff(trace.t_s))))
    gap_s = trace.longest_gap_s(start_s, stop_s)
    return (_gap("power samples", gap_s, allowed_s),) if gap_s > allowed_s else ()


def agreement_findings(
    windows: Sequence[tuple[EnergyWindow, EnergyWindow | None]],
) -> tuple[Finding, ...]:
    """Compare each window's energy with the same from the samples.

    They may differ by two percent and by what their uncertainties explain (k = 2).
    """
    pairs = [
        (window, check)
        for window, check in windows
        if check is not None and window.source != check.source
    ]
    worst = max(pairs, key=lambda pair: _excess_j(*pair), default=None)
    if worst is None or _excess_j(*worst) <= 0:
        return ()
    window, check = worst
    return (
        Finding(
            reason="sources_disagree",
            detail=f"Counter and samples must agree within {MAX_DISAGREEMENT:.0%} and their "
            f"uncertainties, but one window has {window.energy_j:.1f} +- "
            f"{window.energy_u_j:.1f} J and {check.energy_j:.1f} +- {check.energy_u_j:.1f} J.",
        ),
    )


def _excess_j(window: EnergyWindow, check: EnergyWindow) -> float:
    """By how much two energies differ more than they may."""
    u_j = float(np.hypot(window.energy_u_j, check.energy_u_j))
    return abs(window.energy_j - check.energy_j) - (MAX_DISAGREEMENT * window.energy_j + 2 * u_j)


def process_findings(seen: frozenset[int], own: frozenset[int]) -> tuple[Finding, ...]:
    """Tell of processes on the device that are not ours."""
    foreign = sorted(seen - own)
    if not foreign:
        return ()
    return (
        Finding(
            reason="foreign_process",
            detail="No other process may use the device, but process "
            f"{', '.join(map(str, foreign))} held a context on it.",
        ),
    )


def trend_findings(windows: Sequence[EnergyWindow]) -> tuple[Finding, ...]:
    """Tell if energy per unit still moved from window to window."""
    trend = window_trend(
        [window.energy_j / window.work for window in windows],
        [window.energy_u_j / window.work for window in windows],
    )
    if trend is None:
        return ()
    return (
        Finding(
            reason="not_steady",
            detail=f"Energy per unit must not trend by more than {MAX_WINDOW_TREND:.0%}, but "
            f"moved by {trend:+.1%} over {len(windows)} windows; a longer warm-up helps.",
        ),
    )


def _around(looks: Sequence[Look], start_s: float, stop_s: float) -> tuple[Look, Look]:
    before = [look for look in looks if look.at_s <= start_s]
    after = [look for look in looks if look.at_s >= stop_s]
    return (before[-1] if before else looks[0]), (after[0] if after else looks[-1])


def _most_memory_b(looks: Sequence[Look], start_s: float, stop_s: float) -> int | None:
    """Return the most memory in use at looks that tell it, those next to the interval included."""
    known = [look for look in looks if look.state.memory_used_b is not None]
    if not known:
        return None
    first, last = _around(known, start_s, stop_s)
    near = [look.state.memory_used_b for look in known if first.at_s <= look.at_s <= last.at_s]
    return max(used_b for used_b in near if used_b is not None)


def _residency(clocks_mhz: Sequence[int], wanted_mhz: int | None) -> float | None:
    if wanted_mhz is None or not clocks_mhz:
        return None
    near = [abs(clock_mhz - wanted_mhz) <= CLOCK_TOLERANCE_MHZ for clock_mhz in clocks_mhz]
    return sum(near) / len(near)


def _held_share(
    looks: Sequence[Look],
    start_s: float,
    stop_s: float,
    reasons: EventReason,
    counter: Callable[[DeviceState], float | None],
) -> float:
    """Share of the time that ``reasons`` held the clocks: by the driver's counter, or looks.

    The counter is read in some looks only; the nearest that span the interval are compared.
    """
    counted = [look for look in looks if counter(look.state) is not None]
    if counted:
        first, last = _around(counted, start_s, stop_s)
        before_s, after_s = counter(first.state), counter(last.state)
        if before_s is not None and after_s is not None and last.at_s > first.at_s:
            return float(np.clip((after_s - before_s) / (last.at_s - first.at_s), 0, 1))
    inside = [look.state for look in looks if start_s <= look.at_s <= stop_s]
    return sum(bool(state.event_reasons & reasons) for state in inside) / len(inside)


def _throttled(reason: InvalidReason, by: str, share: float) -> Finding:
    return Finding(
        reason=reason,
        detail=f"The GPU may be throttled for {MAX_THROTTLE_SHARE:.0%} of the time at most, but "
        f"{by} throttled it for {share:.1%}; ask for a lower clock or cool the device.",
    )


def _gap(what: str, gap_s: float, allowed_s: float) -> Finding:
    return Finding(
        reason="sample_gap",
        detail=f"{what.capitalize()} must come every {allowed_s:.2f} s, "
        f"but none came for {gap_s:.2f} s.",
    )
