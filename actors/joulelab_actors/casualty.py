"""The record of an attempt whose process died before it could write one."""

from dataclasses import replace

from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Finding
from joulelab.core.record import Record, record_of
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
    provenance = replace(collect_provenance(), hostname=hostname)
    died = (Finding(reason="actor_died", detail=detail),)
    return tuple(
        record_of(
            trial,
            phase=phase,
            unit=workload.unit,
            device=device,
            provenance=provenance,
            findings=died,
        )
        for phase in workload.phases
    )
