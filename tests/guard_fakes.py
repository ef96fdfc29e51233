"""A driver in memory, guards that serve it in a thread, and processes that borrow from a guard."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field

import psutil
from waiting import until

from joulelab.core.clock import MonotonicClock
from joulelab.core.device import (
    Capabilities,
    DeviceAddress,
    DeviceIdentity,
    DeviceState,
    GpuProcess,
)
from joulelab.core.point import OperatingPoint
from joulelab.devices.base import Device
from joulelab.errors import (
    ConfigError,
    DeviceLostError,
    DeviceNotFoundError,
    DevicePermissionError,
    GuardError,
)
from joulelab.guard.client import GuardClient
from joulelab.guard.server import GuardServer

SM_CLOCKS_MHZ = tuple(range(1980, 330, -15))
DEFAULT_LIMIT_W = 700.0


@dataclass
class FakeDriver:
    """What a driver keeps, however many processes open and close its devices.

    ``faults`` holds any of: ``lost`` (nothing works), ``denied`` (no setter works),
    ``stuck`` (setters return and do nothing), ``broken`` (setters raise what no driver should).
    """

    uuids: tuple[str, ...] = ("GPU-a", "GPU-b")
    tells_locks: bool = True
    reset_spares_limit: bool = False
    faults: set[str] = field(default_factory=set)
    points: dict[str, OperatingPoint] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    opened: int = 0

    def open(self, address: DeviceAddress) -> "FakeDevice":
        if address.uuid not in self.uuids:
            raise DeviceNotFoundError(f"No {address.uuid}; there are {', '.join(self.uuids)}.")
        self.opened += 1
        return FakeDevice(self, address.uuid)

    def point(self, uuid: str = "GPU-a") -> OperatingPoint:
        return self.points.get(uuid, OperatingPoint())


class FakeDevice(Device):
    def __init__(self, driver: FakeDriver, uuid: str) -> None:
        self._driver = driver
        self._uuid = uuid
        self._lost = "lost" in driver.faults
        self._limited = False

    @classmethod
    def discover(cls, store=None):
        return ()

    @classmethod
    def open(cls, address):
        raise DeviceNotFoundError("Open fake devices by their driver.")

    @property
    def clock(self):
        return MonotonicClock()

    def identity(self):
        return DeviceIdentity(uuid=self._uuid, name="Fake", backend="fake", driver_version="1")

    def capabilities(self):
        return Capabilities(
            sm_clocks_mhz=SM_CLOCKS_MHZ,
            mem_clocks_mhz=(3201,),
            power_limits_w=(200.0, 700.0),
            default_power_limit_w=DEFAULT_LIMIT_W,
            has_energy_counter=False,
            has_power_samples=False,
            has_memory_power=False,
            has_activity=False,
            can_set_clocks=None,
        )

    def read_power_w(self):
        return 100.0

    def read_state(self):
        self._require_found()
        point = self._driver.point(self._uuid)
        return DeviceState(
            sm_clock_mhz=point.sm_clock_mhz or 1980,
            mem_clock_mhz=point.mem_clock_mhz or 3201,
            temperature_c=40.0,
            power_limit_w=point.power_limit_w or DEFAULT_LIMIT_W,
            held=point if self._driver.tells_locks else None,
        )

    def read_processes(self) -> tuple[GpuProcess, ...]:
        return ()

    def apply(self, point):
        clock_mhz = point.sm_clock_mhz
        if clock_mhz is not None and clock_mhz not in SM_CLOCKS_MHZ:
            below = max(c for c in SM_CLOCKS_MHZ if c < clock_mhz)
            above = min(c for c in SM_CLOCKS_MHZ if c > clock_mhz)
            raise ConfigError(f"sm_clock_mhz {clock_mhz} is not settable; try {below} or {above}.")
        self._write("apply", point)

    def reset(self):
        self._write("reset", OperatingPoint())

    def _write(self, call: str, point: OperatingPoint) -> None:
        self._driver.calls.append(f"{call} {point.label}")
        self._require_found()
        if "broken" in self._driver.faults:
            raise RuntimeError("no such error code")
        if "denied" in self._driver.faults:
            raise DevicePermissionError("Setting clocks needs CAP_SYS_ADMIN.")
        if "stuck" in self._driver.faults:
            return
        before = _knobs(self._driver.point(self._uuid))
        if call == "reset":
            before = {"power_limit_w": self._limit_w_of_others(before)}
        self._limited = self._limited or point.power_limit_w is not None
        after = {**before, **_knobs(point)}
        if after.get("power_limit_w") == DEFAULT_LIMIT_W:
            after["power_limit_w"] = None
        self._driver.points[self._uuid] = OperatingPoint(**after)

    def _limit_w_of_others(self, before):
        """As the NVML device does: a limit set through another handle may not be its business."""
        spare = self._driver.reset_spares_limit and not self._limited
        return before.get("power_limit_w") if spare else None

    def _require_found(self) -> None:
        self._lost = self._lost or "lost" in self._driver.faults
        if self._lost:
            raise DeviceLostError(f"{self._uuid} is lost.")


def _knobs(point: OperatingPoint) -> dict[str, float]:
    return {name: value for name, value in asdict(point).items() if value is not None}


BORROWER = """
import os, sys, time
from pathlib import Path
from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.guard.client import GuardClient
address = DeviceAddress(backend="simulated", uuid=sys.argv[2], store=sys.argv[3])
lease = GuardClient(Path(sys.argv[1])).lease(address, "borrower", ttl_s=float(sys.argv[4]))
lease.apply(OperatingPoint(sm_clock_mhz=1095))
child = os.fork() if sys.argv[5:] == ["forks"] else None
if child != 0:
    print("set", child, flush=True)
time.sleep(60)
"""


@contextmanager
def serving(settings, driver, gate=None):
    settings.make_folders()
    server = GuardServer(settings, driver.open, gate=gate)
    thread = threading.Thread(target=server.serve)
    thread.start()
    until(settings.socket_path.exists)
    client = GuardClient(settings.socket_path, start=False)
    try:
        yield client
    finally:
        driver.faults.clear()
        if settings.socket_path.exists():
            link = socket.socket(socket.AF_UNIX)
            link.connect(str(settings.socket_path))
            while thread.is_alive():
                link.sendall(b'{"do":"stop"}\n')
                thread.join(0.1)
            link.close()
        thread.join()


def end_guard(socket_path):
    """End the guard that serves there, if any does: one that is idle has ended by itself."""
    try:
        GuardClient(socket_path, start=False).stop()
    except GuardError:
        if socket_path.exists():  # it is there, and could not restore
            raise


def status_of(client):
    """The status of a guard with a watchdog; ``None`` while there is none."""
    with suppress(GuardError):
        status = client.status()
        return status if status.watchdog_pid is not None else None
    return None


@contextmanager
def borrower(client, address, ttl_s=30.0, *extra):
    """A process, in a session of its own, that has set a clock and holds it."""
    command = [sys.executable, "-c", BORROWER, client.socket_path, address.uuid, address.store]
    with subprocess.Popen(
        [*command, str(ttl_s), *extra], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline().startswith("set")
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def is_locked(gpu):
    return gpu.read("locked_sm_mhz") is not None


def is_gone(pid):
    """Whether the process has ended and no process of ours still has to wait for it.

    An orphan may wait a second for init to look after it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return False
        parent = process.parent()
        return parent is None or not (
            parent.pid == os.getpid() or parent.name().startswith("joulelab")
        )
    except psutil.NoSuchProcess:
        return True
