"""The record of an attempt whose process died before it could write one."""

from dataclasses import replace
from uuid import uuid4

from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Finding, Measurement, Observed
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.provenance import collect_provenance
from joulelab_actors.recall import workload_of


def died_records(
    trial: Trial, device: DeviceIdentity, hostname: str, detail: str
) -> tuple[Record, ...]:
    """Return one invalid record per phase of ``trial``, which died with its process.

    Args:
        trial: The trial, with its attempt.
        device: The device that it was measured on.
        hostname: Machine that holds the device.
        detail: What happened, one sentence.
    """
    workload = workload_of(trial)
    return tuple(
        Record(
            measurement=Measurement(
                measurement_id=uuid4().hex,
                study=trial.study,
                trial=trial.name,
                attempt=trial.attempt,
                repeat=trial.repeat,
                sentinel=trial.sentinel,
                configuration=trial.configuration,
                phase=phase,
                unit=workload.unit,
                device=device,
                windows=(),
                idle=None,
                observed=Observed(),
                findings=(Finding(reason="actor_died", detail=detail),),
                provenance=replace(collect_provenance(), hostname=hostname),
            ),
            trace=None,
        )
        for phase in workload.phases
    )
