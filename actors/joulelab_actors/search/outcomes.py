"""From what was measured to what a strategy is told, and to what Tune is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from math import hypot
from typing import Any

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.core.validity import MAX_THROTTLE_SHARE
from joulelab.search.base import Figures, Outcome

_FIGURES = tuple(field.name for field in fields(Figures))


def outcome_of(phases: Sequence[Measurement]) -> Outcome:
    """Return what came of one attempt of a trial.

    Args:
        phases: Measurements of all its phases.
    """
    findings = [finding for m in phases for finding in m.findings]
    capped = any(finding.reason == "power_capped" for finding in findings)
    capped |= any((m.observed.power_cap_share or 0.0) > MAX_THROTTLE_SHARE for m in phases)
    candidate = phases[0].configuration
    if findings:
        reason = f"{findings[0].reason}: {findings[0].detail}"
        return Outcome(candidate=candidate, reason=reason, capped=capped)
    return Outcome(candidate=candidate, figures=_figures(phases), capped=capped)


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


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a result of a Tune trial: figures that there are, by their names."""
    shown = {} if outcome.figures is None else asdict(outcome.figures)
    result = {name: value for name, value in shown.items() if value is not None}
    if outcome.reason is not None:
        result["reason"] = outcome.reason
    return result | {"capped": outcome.capped}


def outcome_from(candidate: Configuration, result: Mapping[str, Any]) -> Outcome:
    """Return the outcome that a Tune trial of ``candidate`` reported."""
    capped = bool(result.get("capped", False))
    if "energy_j" not in result:
        reason = str(result.get("reason", "The trial reported no figures."))
        return Outcome(candidate=candidate, reason=reason, capped=capped)
    figures = Figures(**{name: result[name] for name in _FIGURES if name in result})
    return Outcome(candidate=candidate, figures=figures, capped=capped)


def _figures(phases: Sequence[Measurement]) -> Figures:
    energy_j = sum(m.energy_per_unit_j for m in phases)
    time_s = sum(m.time_per_unit_s for m in phases)
    heat_c = [c for m in phases for c in _temperatures(m)]
    memory_b = [b for m in phases if (b := m.observed.memory_used_b) is not None]
    return Figures(
        energy_j=energy_j,
        energy_u_j=hypot(*(m.energy_per_unit_u_j for m in phases)),
        time_s=time_s,
        time_u_s=hypot(*(m.time_per_unit_u_s for m in phases)),
        power_w=energy_j / time_s,
        temperature_c=max(heat_c) if heat_c else None,
        memory_b=float(max(memory_b)) if memory_b else None,
        board=phases[0].device.uuid,
    )


def _temperatures(measurement: Measurement) -> list[float]:
    observed = measurement.observed
    both = (observed.temperature_start_c, observed.temperature_stop_c)
    return [each for each in both if each is not None]
