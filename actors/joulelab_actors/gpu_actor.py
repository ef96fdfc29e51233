"""One actor per GPU: the only process that measures on it."""

import logging
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import ray

from joulelab.core.device import DeviceAddress, DeviceIdentity
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.devices.choice import is_hardware
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.guard import ObserveOnly
from joulelab.measure import Bench
from joulelab.tracking.store import ResultStore
from joulelab_actors.control import GuardedControl
from joulelab_actors.cuda import require_cuda_sees_only
from joulelab_actors.version import code_version

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSettings:
    """What the actors of a pool have in common.

    Attributes:
        results_dir: Results folder of the study, as the actor's node sees it.
        procedure: How to measure.
        observe_only: Whether to call no setter, ever.
        guard_socket: Where the clock guard listens; ``None`` for the node's own.
    """

    results_dir: str
    procedure: Procedure = field(default_factory=Procedure)
    observe_only: bool = False
    guard_socket: str | None = None

    @classmethod
    def of(
        cls,
        folder: Path,
        procedure: Procedure,
        *,
        observe_only: bool = False,
        guard_socket: Path | None = None,
    ) -> Self:
        """Return the settings with paths as the text that travels to other nodes."""
        return cls(
            results_dir=str(folder),
            procedure=procedure,
            observe_only=observe_only,
            guard_socket=None if guard_socket is None else str(guard_socket),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What an actor that is ready to measure says about itself.

    Attributes:
        identity: The device that it holds.
        hostname: Machine that it runs on.
        pid: Its process.
        writer: Its file in the results store.
        code_version: The code that it runs.
    """

    identity: DeviceIdentity
    hostname: str
    pid: int
    writer: str
    code_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatus:
    """What an actor is doing.

    Attributes:
        trial: Name of the trial that it is measuring; ``None`` between trials.
        since_s: Seconds since that trial began.
        num_measured: Trials measured since the process began.
        pid: Its process.
    """

    trial: str | None
    since_s: float
    num_measured: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What came of a trial on an actor; already in the actor's store.

    Attributes:
        records: One per phase of the workload.
        writer: The actor's file in the results store.
        measuring_s: Wall time of the measuring itself.
        between_s: Wall time between the measuring of the trial before and that of this one:
            storing, shipping, waiting for work. ``None`` for the first trial of a process.
    """

    records: tuple[Record, ...]
    writer: str
    measuring_s: float
    between_s: float | None


class GpuActor:
    """Owns one device for its life, and measures on it one trial at a time.

    The class is plain: :mod:`joulelab_actors.pool` puts it on the cluster. Making one opens
    nothing, so that what is wrong with a device is said by :meth:`ready`, as the error it is.

    Args:
        address: The device.
        settings: How to measure, and where to write.
    """

    def __init__(self, address: DeviceAddress, settings: ActorSettings) -> None:
        self._address = address
        self._settings = settings
        hostname = socket.gethostname()
        self._writer = f"{address.uuid}@{hostname}-{os.getpid()}"
        self._store = ResultStore(Path(settings.results_dir), self._writer)
        self._storing = threading.Lock()
        self._is_abandoned = False
        self._control: GuardedControl | None = None
        self._device: Device | None = None
        self._bench: Bench | None = None
        self._trial: str | None = None
        self._trial_since_s = 0.0
        self._measured_s: float | None = None
        self._num_measured = 0

    @ray.method(concurrency_group="measure", max_task_retries=-1)
    def ready(self) -> Readiness:
        """Open the device, if need be, and say what this actor is.

        Raises:
            DeviceError: If the device cannot be opened, or is another than it should be.
        """
        self._open_bench()
        return Readiness(
            identity=self._open_device().identity(),
            hostname=socket.gethostname(),
            pid=os.getpid(),
            writer=self._writer,
            code_version=code_version(),
        )

    @ray.method(concurrency_group="measure")
    def measure(self, trial: Trial) -> Report:
        """Measure ``trial`` and append its records to the store before returning them.

        Raises:
            JouleLabError: If there is not even an invalid measurement to return.
            TrackingError: If it cannot be stored, or is no longer to be.
        """
        bench = self._open_bench()
        self._trial, start_s = trial.name, time.monotonic()
        between_s = None if self._measured_s is None else start_s - self._measured_s
        self._trial_since_s = start_s
        try:
            records = bench.measure(trial)
            self._measured_s = time.monotonic()
            self._keep(records)
            self._num_measured += 1
        finally:
            self._trial = None
        if any(f.reason == "device_lost" for r in records for f in r.measurement.findings):
            self._let_go()
        return Report(
            records=records,
            writer=self._writer,
            measuring_s=self._measured_s - start_s,
            between_s=between_s,
        )

    @ray.method(concurrency_group="control")
    def status(self) -> ActorStatus:
        """Say what the actor is doing, while it does it."""
        since_s = time.monotonic() - self._trial_since_s if self._trial else 0.0
        return ActorStatus(
            trial=self._trial,
            since_s=since_s,
            num_measured=self._num_measured,
            pid=os.getpid(),
        )

    @ray.method(concurrency_group="control")
    def abandon(self) -> None:
        """Store nothing from now on: whoever is told so can read the store for the last time."""
        with self._storing:
            self._is_abandoned = True

    @ray.method(concurrency_group="measure")
    def close(self) -> None:
        """Give the device back at its former settings. Safe to call twice."""
        self._let_go()
        self._store.close()

    def _keep(self, records: tuple[Record, ...]) -> None:
        with self._storing:
            if self._is_abandoned:
                raise TrackingError(f"The study on {self._address.uuid} ended; nothing is stored.")
            self._store.append(*records)

    def _open_device(self) -> Device:
        if self._device is None:
            if is_hardware(self._address):
                require_cuda_sees_only(self._address.uuid)
            device = DEVICES[self._address.backend].open(self._address)
            found = device.identity().uuid
            if found != self._address.uuid:
                device.close()
                raise ConfigError(f"{self._address.uuid} was opened, but {found} answered.")
            self._device = device
        return self._device

    def _open_bench(self) -> Bench:
        if self._bench is None:
            self._bench = Bench(
                self._open_device(), control=self._new_control(), procedure=self._settings.procedure
            )
        return self._bench

    def _new_control(self) -> ObserveOnly | GuardedControl:
        guard = self._settings.guard_socket
        socket_path = None if guard is None else Path(guard)
        if self._settings.observe_only:
            return ObserveOnly(self._open_device(), self._address, guard_socket=socket_path)
        self._control = GuardedControl(
            self._address,
            socket_path=socket_path,
            note=f"actor of {self._settings.results_dir}",
        )
        return self._control

    def _let_go(self) -> None:
        bench, control, device = self._bench, self._control, self._device
        self._bench = self._control = self._device = None
        for held in (bench, control, device):
            try:
                if held is not None:
                    held.close()
            except JouleLabError as error:  # a device that is lost cannot be let go of nicely
                _log.warning("%s: %s", self._address.uuid, error)
