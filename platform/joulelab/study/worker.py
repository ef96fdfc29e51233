"""A GPU that measures trials for a study and stores what it measured, in whatever process."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress, DeviceIdentity
from joulelab.core.procedure import Procedure
from joulelab.core.record import Record
from joulelab.core.trial import Trial
from joulelab.devices.base import Device
from joulelab.devices.choice import is_hardware, open_device
from joulelab.devices.control import JointControl
from joulelab.errors import ConfigError, JouleLabError, TrackingError
from joulelab.guard import ObserveOnly
from joulelab.guard.control import GuardedControl
from joulelab.guard.protocol import STUDY_NOTE
from joulelab.sampling.boards import group_identity
from joulelab.study.telling import Teller
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS
from joulelab.workloads.parcel import Parcel, unpack

if TYPE_CHECKING:  # it needs SciPy
    from joulelab.attribution.attribution import Attribution
    from joulelab.attribution.session import Asked
    from joulelab.attribution.variants import Variant

_log = logging.getLogger(__name__)
FoundT = TypeVar("FoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What the GPUs of a study have in common.

    ``results_dir`` is as the machine of the GPU sees it, ``guard_socket`` ``None`` for the node's
    own. ``programs`` are users', for processes that did not find them by themselves.
    """

    results_dir: Path
    procedure: Procedure = field(default_factory=Procedure)
    observe_only: bool = False
    guard_socket: Path | None = None
    programs: tuple[Parcel, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What came of a trial on a GPU, a record per phase; already in its store, as ``writer``.

    ``between_s`` is the wall time between the measuring of the trial before and that of this one:
    storing, shipping, waiting for work. ``None`` for the first trial of a process.
    """

    records: tuple[Record, ...]
    writer: str
    between_s: float | None


class GpuWorker:
    """Owns one device, or one and its partners, and measures on it one trial at a time.

    Making one opens nothing, so that what is wrong with a device is said by :meth:`open`, as the
    error it is. ``check`` is called with the UUID of real hardware before it is opened; it raises
    if programs of this process would run elsewhere.
    """

    def __init__(
        self,
        address: DeviceAddress,
        settings: WorkerSettings,
        *,
        partners: Sequence[DeviceAddress] = (),
        check: Callable[[str], None] = lambda uuid: None,
    ) -> None:
        self._address = address
        self._addresses = (address, *partners)
        self._settings = settings
        self._check = check
        self.writer = f"{address.uuid}@{socket.gethostname()}-{os.getpid()}"
        self._store = ResultStore(settings.results_dir, self.writer)
        self._teller = Teller(address, settings.results_dir, settings.guard_socket)
        self._storing = threading.Lock()
        self._is_abandoned = False
        self._control: JointControl | None = None
        self._device: Device | None = None
        self._partners: list[Device] = []
        self._bench: Bench | None = None
        self._measured_s: float | None = None

    def open(self) -> DeviceIdentity:
        """Open the device, if need be, and say which it is; the study's programs are loaded.

        Raises ConfigError if a program cannot be had here; DeviceError if the device cannot be
        opened, or is another than it should be.
        """
        unpack(WORKLOADS.programs, self._settings.programs)
        self._open_bench()
        return group_identity((self._open_device(), *self._partners))

    def measure(self, trial: Trial) -> Report:
        """Measure ``trial`` and append its records to the store before returning them.

        Raises JouleLabError if there is not even an invalid measurement to return; TrackingError if
        it cannot be stored, or is no longer to be.
        """
        bench = self._open_bench()
        with self._teller.measuring(trial) as ended:
            now_s = time.monotonic()
            between_s = None if self._measured_s is None else now_s - self._measured_s
            records = bench.measure(trial)
            self._measured_s = time.monotonic()
            self._keep(records)
            ended([record.measurement for record in records])
        if any(f.reason == "device_lost" for r in records for f in r.measurement.findings):
            self._let_go()
        return Report(records=records, writer=self.writer, between_s=between_s)

    def expect(self, trial: Trial | None) -> None:
        """Note what is measured next, to read ahead for it; any thread may, at any time."""
        if (bench := self._bench) is not None:
            bench.expect(None if trial is None else trial.configuration)

    def attribute(
        self, configuration: Configuration, method: "Asked", variants: "Sequence[Variant]" = ()
    ) -> "Attribution":
        """Say where the energy of a program goes; nothing is stored.

        Raises JouleLabError if it cannot be found out; says why.
        """
        from joulelab.attribution.session import Session  # SciPy is no part of what measuring needs

        device, bench = self._open_device(), self._open_bench()
        session = Session(device, partners=self._partners, bench=bench)
        return session.attribute(configuration, method, variants)

    def abandon(self) -> None:
        """Store nothing from now on: whoever hears so can read the store for the last time."""
        with self._storing:
            self._is_abandoned = True

    def close(self) -> None:
        """Give the device back at its former settings. Safe to call twice."""
        self._let_go()
        self._teller.close()
        self._store.close()

    def _keep(self, records: tuple[Record, ...]) -> None:
        with self._storing:
            if self._is_abandoned:
                raise TrackingError(f"The study on {self._address.uuid} ended; nothing is stored.")
            self._store.append(*records)

    def _open_device(self) -> Device:
        if self._device is None:
            if is_hardware(self._address) and len(self._addresses) == 1:
                self._check(self._address.uuid)  # of several, each rank's process sees its own
            device = _opened(self._address, open_device)
            self._device = device
            for partner in self._addresses[1:]:
                self._partners.append(_opened(partner, device.open_partner))
        return self._device

    def _open_bench(self) -> Bench:
        if self._bench is None:
            self._bench = Bench(
                self._open_device(),
                partners=self._partners,
                control=self._new_control(),
                procedure=self._settings.procedure,
            )
        return self._bench

    def _new_control(self) -> JointControl:
        socket_path, note = self._settings.guard_socket, f"{STUDY_NOTE}{self._settings.results_dir}"
        devices = zip(self._addresses, (self._open_device(), *self._partners), strict=True)
        self._control = JointControl(
            [
                ObserveOnly(device, address, guard_socket=socket_path)
                if self._settings.observe_only
                else GuardedControl(address, socket_path=socket_path, note=note)
                for address, device in devices
            ]
        )
        return self._control

    def _let_go(self) -> None:
        devices: list[Device | None] = [self._device, *self._partners]
        bench, control = self._bench, self._control
        self._bench = self._control = self._device = None
        self._partners = []
        for held in (bench, control, *devices):
            try:
                if held is not None:
                    held.close()
            except JouleLabError as error:  # a device that is lost cannot be let go of nicely
                _log.warning("%s: %s", self._address.uuid, error)


def _opened(address: DeviceAddress, open_at: Callable[[DeviceAddress], Device]) -> Device:
    device = open_at(address)
    found = device.identity().uuid
    if found != address.uuid:
        device.close()
        raise ConfigError(f"{address.uuid} was opened, but {found} answered.")
    return device
