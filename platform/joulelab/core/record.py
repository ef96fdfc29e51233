"""A measurement together with the raw power that it came from."""

from dataclasses import dataclass
from uuid import uuid4

from joulelab.core.device import DeviceIdentity
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, Measurement, Observed, Provenance
from joulelab.core.receipt import Receipt
from joulelab.core.trace import PowerTrace
from joulelab.core.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """What the measuring procedure hands on.

    Attributes:
        measurement: The result.
        trace: Power samples of the measured windows; ``None`` where there were none.
    """

    measurement: Measurement
    trace: PowerTrace | None


def record_of(
    trial: Trial,
    *,
    phase: str,
    unit: str,
    device: DeviceIdentity,
    provenance: Provenance,
    windows: tuple[EnergyWindow, ...] = (),
    idle: EnergyWindow | None = None,
    observed: Observed | None = None,
    findings: tuple[Finding, ...] = (),
    trace: PowerTrace | None = None,
    receipt: Receipt | None = None,
) -> Record:
    """Return what became of one phase of ``trial`` on ``device``, under a new identifier.

    Raises:
        ConfigError: If there are neither windows nor findings.
    """
    measurement = Measurement(
        measurement_id=uuid4().hex,
        study=trial.study,
        trial=trial.name,
        attempt=trial.attempt,
        repeat=trial.repeat,
        sentinel=trial.sentinel,
        configuration=trial.configuration,
        phase=phase,
        unit=unit,
        device=device,
        windows=windows,
        idle=idle,
        observed=observed or Observed(),
        findings=findings,
        provenance=provenance,
        receipt=receipt,
    )
    return Record(measurement=measurement, trace=trace)
