"""What happens in a study, for whoever shows its progress; what came of a trial, for strategies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, hypot
from typing import Any

from joulelab.core.cost import Request
from joulelab.core.measurement import Measurement
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.core.validity import MAX_THROTTLE_SHARE
from joulelab.objectives import EDP, OBJECTIVES, Objective
from joulelab.searching.base import Figures, Outcome, cost_of
from joulelab.workloads import WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStarted:
    """The pool is about to measure; ``num_trials`` is ``None`` if that turns out as it goes."""

    num_trials: int | None
    num_skipped: int
    uuids: tuple[str, ...]  # of all its GPUs, those that help others with a trial among them


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReady:
    """A GPU is ready for trials, for the first time or again."""

    uuid: str
    hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A GPU has begun an attempt of a trial."""

    trial: Trial
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialMeasured:
    """A trial has run to its end; its records, one per phase, may be invalid all the same.

    ``writer`` is the file of the results store that has them already. ``between_s`` is the wall
    time on the GPU's actor since the measuring of the trial before; ``None`` where there was none,
    or the report was lost.
    """

    trial: Trial
    uuid: str
    records: tuple[Record, ...]
    writer: str
    between_s: float | None
    retried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt ended without any measurement; ``detail`` says in a sentence what happened.

    It ``died`` with the process that measured, or was ``refused``: the GPU cannot do what was
    asked.
    """

    trial: Trial
    uuid: str
    died: bool
    detail: str
    retried: bool
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceQuarantined:
    """A GPU takes no more trials in this run; says why, and what to do."""

    uuid: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingDown:
    """The tracking store does not take results; the results folder has them all."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyInterrupted:
    """A signal ended the measuring; the study concludes from what it has."""

    study: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """All is measured and concluded; the tracking store still lacks so many measurements."""

    num_left: int


PoolEvent = DeviceReady | TrialStarted | TrialMeasured | AttemptFailed | DeviceQuarantined
StudyEvent = StudyStarted | PoolEvent | StudyInterrupted | TrackingDown | Delivering


def outcome_of(phases: Sequence[Measurement]) -> Outcome:
    """Return what came of one attempt of a trial, from the measurements of all its phases."""
    findings = [finding for m in phases for finding in m.findings]
    capped = [m for m in phases if _is_capped(m)]
    clocks_mhz = [clock for m in capped if (clock := m.observed.sm_clock_mhz) is not None]
    found = Outcome(
        candidate=phases[0].configuration,
        capped=bool(capped),
        held_mhz=min(clocks_mhz, default=None),
        barred=any(finding.reason == "not_allowed" for finding in findings),
        spent_j=sum(map(spent_j, phases)),
        spent_s=sum(map(_spent_s, phases)),
    )
    if not findings:
        return replace(found, figures=_figures(phases))
    held = _held(phases) if {f.reason for f in findings} == {"power_capped"} else None
    return replace(found, reason=str(findings[0]), held=held)


def spent_j(measurement: Measurement) -> float:
    """Return the energy that a measurement took, the waits between its parts left out.

    Windows and idle window are as measured; the warm-up counts with the power of the windows.
    """
    windows, idle = measurement.windows, measurement.idle
    energy_j = sum(w.energy_j for w in windows)
    duration_s = sum(w.duration_s for w in windows)
    if duration_s > 0:
        energy_j *= 1 + (measurement.observed.warmup_s or 0.0) / duration_s
    return energy_j + (0.0 if idle is None else idle.energy_j)


def _spent_s(measurement: Measurement) -> float:
    """Return the time of the same parts."""
    idle_s = 0.0 if measurement.idle is None else measurement.idle.duration_s
    windows_s = sum(window.duration_s for window in measurement.windows)
    return idle_s + (measurement.observed.warmup_s or 0.0) + windows_s


def result_of(outcome: Outcome, objective: Objective = EDP) -> dict[str, Any]:
    """Return an outcome as a result of a Tune trial: figures that there are, by their names.

    ``objective`` is among the costs, besides those that have a name.
    """
    result: dict[str, Any] = {"capped": outcome.capped}
    if outcome.reason is not None:
        result["reason"] = outcome.reason
    if outcome.figures is not None:
        shown = asdict(outcome.figures)
        result |= {name: value for name, value in shown.items() if value is not None}
        result |= _costs(outcome.figures, objective)
    return result


def _is_capped(measurement: Measurement) -> bool:
    found = any(finding.reason == "power_capped" for finding in measurement.findings)
    return found or (measurement.observed.power_cap_share or 0.0) > MAX_THROTTLE_SHARE


def _costs(figures: Figures, objective: Objective) -> dict[str, float]:
    """Return what figures cost by each objective, a lost quality left out."""
    known = OBJECTIVES.loadable() | {objective.name: objective}
    lacks_quality = not figures.retention
    return {
        name: exp(cost_of(each, figures).log)
        for name, each in known.items()
        if not (each.quality_exponent and lacks_quality)
    }


def _figures(phases: Sequence[Measurement]) -> Figures:
    """Return what a request of the configuration took, per unit of the whole."""
    request = WORKLOADS.of(phases[0].configuration).request
    weigh = (lambda _: 1.0) if request is None else request.per_unit
    weighed = [(weigh(m.phase), m) for m in phases]
    energy_j = sum(share * m.energy_per_unit_j for share, m in weighed)
    time_s = sum(share * m.time_per_unit_s for share, m in weighed)
    both = [(m.observed.temperature_start_c, m.observed.temperature_stop_c) for m in phases]
    heat_c = [celsius for pair in both for celsius in pair if celsius is not None]
    recordings = [m.recording for m in phases if m.recording is not None]
    memory_b = [b for m in phases if (b := m.observed.memory_used_b) is not None]
    return Figures(
        energy_j=energy_j,
        energy_u_j=hypot(*(share * m.energy_per_unit_u_j for share, m in weighed)),
        time_s=time_s,
        time_u_s=hypot(*(share * m.time_per_unit_u_s for share, m in weighed)),
        power_w=energy_j / time_s,
        temperature_c=max(heat_c) if heat_c else None,
        memory_b=float(max(memory_b)) if memory_b else None,
        board=phases[0].device.uuid,
        recording=", ".join(recordings) or None,
        latency_s=None if request is None else request.size * time_s,
        **_tokens(request, {m.phase: m for m in phases}),
    )


def _held(phases: Sequence[Measurement]) -> Figures | None:
    """Return what phases took at the clocks that the power cap held; ``None`` without windows."""
    if not all(m.windows for m in phases):
        return None
    return _figures([replace(m, findings=()) for m in phases])


def _tokens(request: Request | None, phases: Mapping[str, Measurement]) -> dict[str, float]:
    """Return the times to the first and to each further token of a request that generates."""
    if request is None or request.num_generated is None:
        return {}
    first, rest = phases["prefill"], phases["decode"]
    firsts, each = request.units["prefill"], request.units["decode"] / request.num_generated
    return {
        "ttft_s": firsts * first.time_per_unit_s,
        "ttft_u_s": firsts * first.time_per_unit_u_s,
        "tpot_s": each * rest.time_per_unit_s,
        "tpot_u_s": each * rest.time_per_unit_u_s,
    }
