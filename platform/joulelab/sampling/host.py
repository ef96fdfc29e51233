"""Keep a workload ready on a device, and turn its failures into errors of ours."""

import logging
import os
from dataclasses import dataclass
from typing import Any

from joulelab.core.configuration import Configuration, KnobValue
from joulelab.devices.base import Device
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    MeasurementError,
)
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload

logger = logging.getLogger(__name__)


class WorkloadFailedError(MeasurementError):
    """The workload raised, so there is nothing to measure."""


class WorkloadRefusedError(MeasurementError):
    """The device cannot hold the workload, so there is nothing to measure."""


class WorkloadHost:
    """Makes workloads, and keeps the last one prepared for the next trial.

    Args:
        device: Where the workloads run.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept: _Kept | None = None
        self.own_pids = frozenset({os.getpid()})
        """Processes on the device that are known to be ours."""

    def make(self, configuration: Configuration) -> Workload[Any]:
        """Return the workload of ``configuration``: the kept one if it is the same, else new.

        Raises:
            ConfigError: If there is no such workload or knob, or a value is not allowed.
        """
        key = (configuration.workload, configuration.knobs)
        if self._kept is None or self._kept.key != key:
            workload = WORKLOADS[configuration.workload].from_knobs(dict(configuration.knobs))
            if self._kept is not None:
                workload.take_over(self._kept.workload)
            self.close()
            self._kept = _Kept(key=key, workload=workload, hosted=self._device.host(workload))
        return self._kept.workload

    def prepare(self) -> None:
        """Prepare the workload that was made last, unless that has been done.

        Inside a container the driver's process ids are not our own, so what is new on the
        device after the preparation is taken to be ours.

        Raises:
            ConfigError: If the device cannot run it as asked for.
            DeviceLostError: If the device has gone.
            WorkloadRefusedError: If the device has too little memory.
            WorkloadFailedError: If it failed in another way.
        """
        kept = self._made()
        if kept.prepared:
            return
        before = self.pids()
        try:
            kept.hosted.prepare()
        except (DeviceLostError, ConfigError):
            raise
        except Exception as error:  # a program may fail in any way of its own
            raise self._failed("preparation", error) from error
        kept.prepared = True
        self.own_pids |= self.pids() - before

    def run(self, phase: str) -> float:
        """Do one unit of ``phase``, and return the work it did.

        Raises:
            DeviceLostError: If the device has gone.
            WorkloadRefusedError: If the device has too little memory.
            WorkloadFailedError: If the workload failed in another way, or did no work.
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
        """Read which processes hold a context on the device now."""
        return frozenset(process.pid for process in self._device.read_processes())

    def close(self) -> None:
        """Free the workload that is kept. Safe to call twice."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        try:
            kept.hosted.close()
        except DeviceLostError as error:
            logger.warning("Nothing is left to free: %s", error)

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
        if isinstance(error, DeviceError) and not isinstance(error, DeviceNotFoundError):
            return WorkloadRefusedError(str(error))
        return WorkloadFailedError(f"The workload failed in its {what}: {error!r}")


@dataclass(slots=True, kw_only=True)
class _Kept:
    key: tuple[str, tuple[tuple[str, KnobValue], ...]]
    workload: Workload[Any]
    hosted: Workload[Any]
    prepared: bool = False
