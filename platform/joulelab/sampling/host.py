"""Keep a workload ready on a device, and turn its failures into errors of ours."""

import logging
import os
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, InvalidReason
from joulelab.devices.base import Device
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceHotError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    ForeignSettingError,
    GuardError,
    JouleLabError,
    MeasurementError,
    NotAllowedError,
    missing_extra,
)
from joulelab.sampling.cuda_device import descends, uses
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload

logger = logging.getLogger(__name__)


class WorkloadFailedError(MeasurementError):
    """The workload raised, so there is nothing to measure."""


class WorkloadRefusedError(MeasurementError):
    """The device cannot hold the workload, so there is nothing to measure."""


_REASONS: tuple[tuple[type[JouleLabError], InvalidReason], ...] = (
    (DeviceLostError, "device_lost"),
    (DevicePermissionError, "permission_denied"),
    (GuardError, "lease_lost"),
    (NotAllowedError, "not_allowed"),
    (ForeignSettingError, "foreign_setting"),
    (DeviceHotError, "not_cooled"),
    (WorkloadRefusedError, "unsupported"),
    (WorkloadFailedError, "workload_failed"),
)
FINDINGS: tuple[type[JouleLabError], ...] = (MeasurementError, *(kind for kind, _ in _REASONS))
"""What ends a measurement and is kept in it, as a finding."""


def finding_of(error: JouleLabError) -> Finding:
    """Return the finding that tells an error, one of :data:`FINDINGS`."""
    reasons = (reason for kind, reason in _REASONS if isinstance(error, kind))
    return Finding(reason=next(reasons, "sample_gap"), detail=str(error))


class WorkloadHost:
    """Makes workloads, and keeps the last one prepared for the next trial."""

    def __init__(self, device: Device, partners: Sequence[Device] = ()) -> None:
        self._device = device
        self._partners = tuple(partners)
        self._uuid = device.identity().uuid
        self._kept: _Kept | None = None
        self.own_pids = frozenset({os.getpid()})
        """Processes on the device that are known to be ours."""

    def make(self, configuration: Configuration) -> Workload[Any]:
        """Return the workload of ``configuration``: the kept one if it is the same, else new.

        Raises ConfigError if there is no such workload or knob, or a value is not allowed.
        """
        key = configuration.program
        if self._kept is None or self._kept.key != key:
            workload = WORKLOADS[configuration.workload].from_knobs(dict(configuration.knobs))
            if self._kept is not None:
                workload.take_over(self._kept.workload)
            self.close()
            self._kept = _Kept(key=key, workload=workload, hosted=self.hosted_on(workload))
        return self._kept.workload

    def prepare(self) -> None:
        """Prepare the workload that was made last, unless that has been done.

        Inside a container the driver's process ids are not our own, so what is new on the device
        after the preparation is taken to be ours, where nothing new is known to be. Raises
        ConfigError if the device cannot run it as asked for; DeviceLostError if the device has
        gone; WorkloadRefusedError if the device has too little memory; WorkloadFailedError if it
        failed in another way.
        """
        kept = self._made()
        if kept.prepared:
            return
        before = self.pids()
        kept.workload.gpu_uuid = self._uuid
        try:
            kept.hosted.prepare()
        except (DeviceLostError, ConfigError):
            raise
        except Exception as error:  # a program may fail in any way of its own
            raise self._failed("preparation", error) from error
        kept.prepared = True
        new = self.pids() - before
        processes = kept.hosted.processes
        roots = processes or (os.getpid(),)
        self.own_pids |= {pid for pid in new if descends(pid, roots)} or new
        if kept.workload.uses_gpu and kept.hosted is kept.workload:
            self._require_here()
        if processes:
            self._require_nowhere_else(processes)

    def run(self, phase: str) -> float:
        """Do one unit of ``phase``, and return the work it did.

        Raises DeviceLostError if the device has gone; WorkloadRefusedError if the device has too
        little memory; WorkloadFailedError if the workload failed in another way, or did no work.
        """
        try:
            work = self._made().hosted.run(phase)
        except (DeviceLostError, ConfigError):
            raise
        except Exception as error:  # a program may fail in any way of its own
            raise self._failed(f"phase {phase!r}", error) from error
        if not work > 0:
            raise WorkloadFailedError(f"Phase {phase!r} must do some work, but did {work}.")
        return work

    def pids(self) -> frozenset[int]:
        """Read which processes hold a context on the device now; the workload's become ours."""
        found = frozenset[int]().union(*map(self.pids_on, (self._device, *self._partners)))
        roots = () if self._kept is None else self._kept.hosted.processes
        self.own_pids |= {pid for pid in found - self.own_pids if descends(pid, roots)}
        return found

    def pids_on(self, device: Device) -> frozenset[int]:
        """Read which processes hold a context on one of the devices now."""
        return frozenset(process.pid for process in device.read_processes())

    @property
    def is_prepared(self) -> bool:
        """Whether the workload that was made last is prepared."""
        return self._made().prepared

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases of the workload as it runs here; some know them only once it is prepared."""
        return self._made().hosted.phases

    @property
    def hosted(self) -> Workload[Any]:
        """The workload that was made last, as it runs here."""
        return self._made().hosted

    @property
    def kept_b(self) -> int:
        """Memory of the device that the workload holds for others of its settings."""
        return 0 if self._kept is None else self._kept.hosted.kept_b

    def rest(self) -> None:
        """End what the workload has going on between repeats."""
        if self._kept is not None:
            self._kept.hosted.rest()

    def figures(self, windows: Sequence[EnergyWindow]) -> tuple[tuple[str, float], ...]:
        """Return what else the work in ``windows`` came to, by name.

        Raises WorkloadFailedError if the workload failed to say.
        """
        try:
            figures = self._made().hosted.figures(windows)
            return tuple(sorted((name, float(value)) for name, value in figures.items()))
        except Exception as error:  # a program may fail in any way of its own
            raise self._failed("figures", error) from error

    @property
    def recording(self) -> str | None:
        """Name of the recording that was played last; ``None`` where nothing was replayed."""
        return None if self._kept is None else self._kept.hosted.recording

    def close(self) -> None:
        """Free the workload that is kept. Safe to call twice."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        try:
            kept.hosted.close()
        except DeviceLostError as error:
            logger.warning("Nothing is left to free: %s", error)

    def _require_here(self) -> None:
        """Refuse a program that works on another GPU, or on none.

        One that had begun to use the GPU before it was prepared is found among the processes of
        other names (inside a container) if it is the only one. Raises WorkloadFailedError if it
        does not use this GPU.
        """
        pids, is_used = self.pids(), uses(self._uuid)
        if is_used is not False and pids & self.own_pids:
            return
        if is_used is False or (is_used is None and not pids):
            self.close()
            raise WorkloadFailedError(
                f"The program did nothing on {self._uuid}: it works on another GPU, or on none. "
                "Have it use the GPU that is measured, or measure the one that it uses."
            )
        if is_used and len(pids) == 1:
            self.own_pids |= pids

    def _require_nowhere_else(self, roots: Collection[int]) -> None:
        """Refuse processes that work on other GPUs too, whose energy would be missing.

        Raises WorkloadRefusedError if they do; names the GPUs.
        """
        kind = type(self._device)
        here = [device.identity().uuid for device in (self._device, *self._partners)]
        held = [
            address.uuid
            for address in kind.discover(None)
            if address.uuid not in here and _holds(kind.open(address), roots)
        ]
        if held:
            self.close()
            raise WorkloadRefusedError(
                "A measurement is of the GPUs of its trial, but processes of the program hold "
                f"{', '.join(held)} besides {' and '.join(here)}. `joulelab run` and "
                "`joulelab bench-server` add up all that a program uses."
            )

    def hosted_on(self, workload: Workload[Any]) -> Workload[Any]:
        """Return a workload as it runs on the devices."""
        if self._partners:
            return self._device.host_together(workload, self._partners)
        return self._device.host(workload)

    def _made(self) -> "_Kept":
        if self._kept is None:
            raise ConfigError("A workload must be made before it can run.")
        return self._kept

    def _failed(self, what: str, error: Exception) -> MeasurementError | DeviceLostError:
        """Drop the broken workload; a lost device is the deeper cause if it is one."""
        try:
            self.close()
        except Exception as closing:  # the first error is the one to tell
            logger.warning("Closing the failed workload failed too: %r", closing)
        try:
            self._device.read_state()
        except DeviceLostError as lost:
            return lost
        if isinstance(error, ImportError) and (missing := missing_extra(error)):
            return WorkloadRefusedError(missing)
        if isinstance(error, DeviceError) and not isinstance(error, DeviceNotFoundError):
            return WorkloadRefusedError(str(error))
        why = str(error) if isinstance(error, JouleLabError) else repr(error)
        return WorkloadFailedError(f"The workload failed in its {what}: {why}")


def _holds(device: Device, roots: Collection[int]) -> bool:
    with closing(device):
        return any(descends(process.pid, roots) for process in device.read_processes())


@dataclass(slots=True, kw_only=True)
class _Kept:
    key: tuple[str, tuple[tuple[str, KnobValue], ...]]
    workload: Workload[Any]
    hosted: Workload[Any]
    prepared: bool = False
