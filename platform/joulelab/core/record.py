"""A measurement together with the raw power that it came from, and what the device did."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from joulelab.core.device import DeviceIdentity
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import (
    Board,
    Finding,
    InvalidReason,
    Measurement,
    Observed,
    Provenance,
)
from joulelab.core.point import Receipt
from joulelab.core.procedure import Pace
from joulelab.core.trace import Course, PowerTrace
from joulelab.core.trial import Trial

BORNE: frozenset[InvalidReason] = frozenset({"not_steady"})
"""Findings that leave the windows known, their energy, time, and what else their work came to: a
host whose pace drifts makes energy per unit drift, by static power over longer gaps."""


def voiding(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that leave nothing known of the windows."""
    return tuple(finding for finding in findings if finding.reason not in BORNE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """What the measuring procedure hands on."""

    measurement: Measurement
    trace: PowerTrace | None  # power samples of the measured windows; None where there were none
    course: Course = field(default_factory=Course)


@dataclass(slots=True, kw_only=True)
class Session:
    """What all phases of one trial on one device share."""

    trial: Trial
    unit: str
    device: DeviceIdentity
    provenance: Provenance  # what the results came from
    idle: EnergyWindow | None = None
    receipt: Receipt | None = None  # what the guard set; None without one
    pace: Pace = "reference"  # from rest, or right after the same program ran at another point


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The windows of one phase, and whether to believe them."""

    # Energy of every interval; empty where the source does not span them all.
    windows: tuple[EnergyWindow, ...] = ()
    observed: Observed = field(default_factory=Observed)
    findings: tuple[Finding, ...] = ()
    trace: PowerTrace | None = None  # power samples of the windows; None where there were none
    course: Course = field(default_factory=Course)
    boards: tuple[Board, ...] = ()  # of several, what was found of each

    def without_memory(self, kept_b: int) -> "Verdict":
        """Return the same, with so much less memory in use."""
        used_b = self.observed.memory_used_b
        if used_b is None:
            return self
        return self.observing(memory_used_b=used_b - kept_b)

    def observing(self, **found: Any) -> "Verdict":
        """Return the same with fields of what was observed replaced."""
        return replace(self, observed=replace(self.observed, **found))


def record_of(
    session: Session,
    phase: str,
    verdict: Verdict,
    figures: tuple[tuple[str, float], ...] = (),
    recording: str | None = None,
) -> Record:
    """Return what became of one phase of a trial, under a new identifier.

    Raises ConfigError if there are neither windows nor findings.
    """
    trial = session.trial
    measurement = Measurement(
        measurement_id=uuid4().hex,
        study=trial.study,
        trial=trial.name,
        attempt=trial.attempt,
        repeat=trial.repeat,
        sentinel=trial.sentinel,
        configuration=trial.configuration,
        phase=phase,
        unit=session.unit,
        device=session.device,
        windows=verdict.windows,
        idle=session.idle,
        observed=verdict.observed,
        findings=verdict.findings,
        provenance=session.provenance,
        receipt=session.receipt,
        figures=figures,
        recording=recording,
        pace=session.pace,
        boards=verdict.boards,
    )
    return Record(measurement=measurement, trace=verdict.trace, course=verdict.course)
