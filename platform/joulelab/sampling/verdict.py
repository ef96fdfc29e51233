"""From what the instruments saw to windows, conduct and findings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from joulelab.core.device import Activity, Capabilities
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, Observed
from joulelab.core.point import OperatingPoint
from joulelab.core.record import Verdict
from joulelab.core.settings import setting_findings
from joulelab.core.trace import Course, PowerTrace
from joulelab.core.validity import (
    agreement_findings,
    conduct_findings,
    conduct_of,
    process_findings,
    trace_findings,
    trend_findings,
    unseen_finding,
)
from joulelab.errors import TraceCoverageError
from joulelab.sampling.instruments import Readings
from joulelab.sampling.readiness import WarmUp
from joulelab.sampling.window_loop import TimeSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What was to be in force of a device while it was measured."""

    point: OperatingPoint  # what the trial asks for
    in_force: OperatingPoint  # the same, with a limit that the procedure sets
    capabilities: Capabilities
    since_s: float  # since when it was in force, and nothing else


def judge(
    readings: Readings,
    intervals: Sequence[TimeSpan],
    treatment: Treatment,
    *,
    own_pids: frozenset[int],
    last_pids: frozenset[int],
    warmup: WarmUp,
    activity: Activity,
    sampler_share: float,
) -> Verdict:
    """Apply the validity contract to one phase, of one window or more in their order.

    Processes ``last_pids`` were on the device after the last window, and ``own_pids`` of them are
    ours. ``sampler_share`` is the share of one core that the instruments took.
    """
    start_s, stop_s = intervals[0].start_s, intervals[-1].stop_s
    log = readings.log
    windows, findings = energy_windows(readings, intervals)
    checks = [readings.cross_check(interval) for interval in intervals]
    conduct = conduct_of(log.looks, treatment.point, start_s, stop_s)
    course = Course(looks=log.looks, slow_looks=log.slow_looks).between(start_s, stop_s)
    pids = last_pids.union(*(look.pids for look in course.slow_looks))
    memory_w = [w for look in course.slow_looks if (w := look.memory_power_w) is not None]
    findings = (
        *findings,
        *((unseen_finding(),) if conduct is None else conduct_findings(conduct, treatment.point)),
        *setting_findings(
            log.looks, treatment.in_force, treatment.capabilities, treatment.since_s, stop_s
        ),
        *trace_findings(log.trace, start_s, stop_s),
        *(agreement_findings(list(zip(windows, checks, strict=True))) if windows else ()),
        *process_findings(pids, own_pids),
        *trend_findings(windows),
    )
    checked_j = [check.energy_j for check in checks if check is not None]
    observed = replace(
        Observed() if conduct is None else conduct.observed,
        memory_power_w=fmean(memory_w) if memory_w else None,
        samples_energy_j=sum(checked_j) if len(checked_j) == len(intervals) else None,
        warmup_s=warmup.duration_s,
        warmup_steady=warmup.steady,
        sampler_share=sampler_share,
        activity=activity,
        activity_source=None if activity == Activity() else treatment.capabilities.activity_source,
    )
    return Verdict(
        windows=windows,
        observed=observed,
        findings=tuple(dict.fromkeys(findings)),
        trace=_cut(log.trace, start_s, stop_s),
        course=course,
    )


def energy_windows(
    readings: Readings, intervals: Sequence[TimeSpan]
) -> tuple[tuple[EnergyWindow, ...], tuple[Finding, ...]]:
    """Return the energy of every interval, or no windows and the findings that say why."""
    start_s, stop_s = intervals[0].start_s, intervals[-1].stop_s
    counter = readings.counter
    findings = counter.findings(start_s, stop_s) if counter is not None else ()
    try:
        return tuple(readings.window(interval) for interval in intervals), findings
    except TraceCoverageError as error:
        return (), findings or (Finding(reason="sample_gap", detail=str(error)),)


def _cut(trace: PowerTrace | None, start_s: float, stop_s: float) -> PowerTrace | None:
    """Keep the samples of the interval and the next one on either side."""
    if trace is None:
        return None
    first = max(0, int(np.searchsorted(trace.t_s, start_s, side="right")) - 1)
    last = int(np.searchsorted(trace.t_s, stop_s, side="left")) + 1
    if last - first < 2:
        return None
    return PowerTrace(t_s=trace.t_s[first:last].copy(), power_w=trace.power_w[first:last].copy())
