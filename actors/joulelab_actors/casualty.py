"""Attempts that the machinery failed at: how they are told, and the record of one without any."""

from dataclasses import replace

from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Finding, InvalidReason
from joulelab.core.record import Record, record_of
from joulelab.core.trial import Trial
from joulelab.provenance import collect_provenance
from joulelab_actors.recall import workload_of

DEVICE_IS_OUT: frozenset[InvalidReason] = frozenset({"device_lost", "permission_denied"})
"""Findings after which a device can be used no more."""
MACHINERY: frozenset[InvalidReason] = DEVICE_IS_OUT.union(
    {"actor_died", "foreign_setting", "lease_lost"}
)
"""Findings that speak of the machinery and not of the operating point: to be tried again."""


def unmeasured_records(
    trial: Trial, device: DeviceIdentity, hostname: str, finding: Finding
) -> tuple[Record, ...]:
    """Return one invalid record per phase of ``trial``, of which nothing was measured.

    Args:
        trial: The trial, with its attempt.
        device: The device that it was given to.
        hostname: Machine that holds the device.
        finding: What happened.
    """
    workload = workload_of(trial)
    provenance = replace(collect_provenance(), hostname=hostname)
    return tuple(
        record_of(
            trial,
            phase=phase,
            unit=workload.unit,
            device=device,
            provenance=provenance,
            findings=(finding,),
        )
        for phase in workload.phases
    )
