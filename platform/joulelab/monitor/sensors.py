"""The GPUs of a monitor, their sensors and processes, and the energy of processors (RAPL)."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from joulelab.core.device import DeviceAddress
from joulelab.devices.base import Device
from joulelab.devices.choice import find_default, find_visible, open_in_real_time
from joulelab.errors import DeviceNotFoundError
from joulelab.monitor.window import CpuUse
from joulelab.sampling.cuda_device import descends
from joulelab.sampling.meter import Meter
from joulelab.sampling.sampler import Sampler

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""``PROC_PID_INIT_INO`` of the Linux kernel (include/linux/proc_ns.h)."""


def find_gpus(
    device: str, store: str | None, gpus: Iterable[str | int] | str | int | None
) -> tuple[DeviceAddress, ...]:
    """Find the GPUs that a monitor watches; its arguments are those of the monitor.

    Raises DeviceNotFoundError if there is no such GPU; names those that there are.
    """
    if gpus is not None:
        gpus = (gpus,) if isinstance(gpus, str | int) else tuple(gpus)
    has_uuids = gpus is not None and any(isinstance(gpu, str) for gpu in gpus)
    there = (find_visible if has_uuids else find_default)(device, store)
    if gpus is None:
        rank = os.environ.get("LOCAL_RANK")
        if rank is None or len(there) == 1:
            return there
        return (_chosen(int(rank), in_cuda_order(there, os.environ.get(_VISIBLE))),)
    chosen = [_chosen(gpu, there) for gpu in gpus]
    return tuple(dict.fromkeys(chosen))


def counts_processors() -> bool:
    """Whether this process reads the processors: of the ranks of a node the first alone does."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def in_cuda_order(there: Sequence[DeviceAddress], setting: str | None) -> tuple[DeviceAddress, ...]:
    """Order the visible GPUs as CUDA numbers them, as ``CUDA_VISIBLE_DEVICES`` names them.

    Its ``setting`` holds indices or UUIDs (or their beginnings); ``None`` if unset. GPUs are given
    in the driver's order.
    """
    entries = [entry.strip() for entry in (setting or "").split(",") if entry.strip()]
    if not entries or len(entries) != len(there):
        return tuple(there)
    if all(entry.isdigit() for entry in entries):
        place = {index: number for number, index in enumerate(sorted(map(int, entries)))}
        return tuple(there[place[int(entry)]] for entry in entries)
    return tuple(
        address for entry in entries for address in there if address.uuid.startswith(entry)
    )


def _chosen(gpu: str | int, there: Sequence[DeviceAddress]) -> DeviceAddress:
    for number, address in enumerate(there):
        if gpu in (number, address.uuid):
            return address
    known = ", ".join(f"{number} ({address.uuid})" for number, address in enumerate(there))
    raise DeviceNotFoundError(f"gpus must be of those that are there, got {gpu!r}: {known}.")


class OwnProcesses:
    """Some processes and their descendants; in a container, whatever came after watching began.

    Inside a container the driver's process ids are the host's, which cannot be compared with ours;
    those that are new since the watching began are then taken to be this program's. Whose a process
    is must be found while it runs: its parents are not known afterwards. By default it is this
    process, or in a rank of ``torchrun`` all ranks of the node.
    """

    def __init__(self, roots: Iterable[int] | None = None) -> None:
        self._roots = frozenset(_roots() if roots is None else roots)
        self._first: dict[str, frozenset[int]] = {}
        self._own: dict[str, frozenset[int]] = {}

    def begin(self, device: Device) -> None:
        """Note who is on the GPU before anything of this program's is watched."""
        self._first[device.identity().uuid] = _pids(device)

    def note(self, uuid: str, pids: frozenset[int]) -> None:
        """Find out whose the processes are that are on a GPU now."""
        own = self._own.get(uuid, self._roots)
        new = pids - own
        found = frozenset(pid for pid in new if descends(pid, self._roots))
        if new and not found and not pids & own and not _sees_host_ids():
            found = new - self._first.get(uuid, frozenset())
        self._own[uuid] = own | found

    def pids(self, device: Device) -> frozenset[int]:
        """Return the ids that are not foreign to this program, of all that were seen so far."""
        uuid = device.identity().uuid
        self.note(uuid, _pids(device))
        return self._own[uuid]


def _roots() -> tuple[int, ...]:
    """This process; in a rank of torchrun the agent that started all ranks of the node."""
    in_rank = "LOCAL_RANK" in os.environ and "TORCHELASTIC_RUN_ID" in os.environ
    return (os.getppid(), os.getpid()) if in_rank else (os.getpid(),)


def _sees_host_ids() -> bool:
    """Whether this process is in the machine's initial namespace of process ids."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _pids(device: Device) -> frozenset[int]:
    return frozenset(process.pid for process in device.read_processes())


KEPT_SAMPLES = 60_000
"""Twenty minutes of 20-ms samples; half of them go at once."""

Listener = Callable[[frozenset[int]], None]


class Sensors:
    """Samples one GPU in the background while at least one monitor listens.

    Attributes:
        meter: Reads of the counter since then; ``None`` where there is none.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.holders = 0
        self._has_counter = device.capabilities().has_energy_counter
        self._listeners: tuple[Listener, ...] = ()
        self.sampler = Sampler(device)
        self.meter: Meter | None = None

    def listen(self, listener: Listener) -> None:
        """Sample from now on, and tell ``listener`` which processes are seen."""
        with _turn:
            first = not self._listeners
            self._listeners += (listener,)
            if first:
                self.sampler = Sampler(self.device, max_samples=KEPT_SAMPLES, seen=self._note_pids)
                self.meter = Meter(self.device) if self._has_counter else None
                self.sampler.start()
                if self.meter is not None:
                    self.meter.start()

    def leave(self, listener: Listener) -> None:
        """Tell ``listener`` no more; the last one ends the sampling. Safe to call twice."""
        with _turn:
            were = self._listeners
            self._listeners = tuple(each for each in were if each != listener)
            if were and not self._listeners:
                if self.meter is not None:
                    self.meter.stop()
                self.sampler.stop()

    def _note_pids(self, pids: frozenset[int]) -> None:
        for listener in self._listeners:
            listener(pids)


_turn = threading.RLock()
_held: dict[tuple[int, DeviceAddress | Device], Sensors] = {}


def hold(source: DeviceAddress | Device) -> Sensors:
    """Return the sensors of a GPU, which are open until every holder has let go.

    A device that is given itself is closed by its owner. Raises DeviceError if it cannot be opened.
    """
    with _turn:
        key = _key(source)
        if key not in _held:
            device = source if isinstance(source, Device) else open_in_real_time(source)
            _held[key] = Sensors(device)
        _held[key].holders += 1
        return _held[key]


def let_go(source: DeviceAddress | Device) -> None:
    """Undo one :func:`hold`; the last one closes a device that was opened for it."""
    with _turn:
        key = _key(source)
        _held[key].holders -= 1
        if not _held[key].holders:
            sensors = _held.pop(key)
            if not isinstance(source, Device):
                sensors.device.close()


def _key(source: DeviceAddress | Device) -> tuple[int, DeviceAddress | Device]:
    """A forked process has no threads of its parent's, and so needs sensors of its own."""
    return os.getpid(), source


POWERCAP = Path("/sys/class/powercap")


class Rapl:
    """The energy counters of the packages and of their memory, below the folder of power caps.

    Intel's and AMD's drivers both register under ``intel-rapl``. Since CVE-2020-8694 kernels let
    root alone read them by default.
    """

    def __init__(self, root: Path = POWERCAP) -> None:
        zones = sorted(root.glob("intel-rapl:*"))
        named = [(zone, _text(zone / "name")) for zone in zones]
        self._packages = [zone for zone, name in named if name.startswith("package")]
        self._drams = [zone for zone, name in named if name == "dram"]
        self.reason = self._reason_unread(root)
        """Why they cannot be read; empty where they can."""
        self._last_j = {} if self.reason else {zone: _read_j(zone) for zone in self._zones}
        self._sum_j = dict.fromkeys(self._last_j, 0.0)
        self._lock = Lock()

    def read_j(self) -> Mapping[Path, float]:
        """Read what every counter has counted since this was made, in joules.

        The counters begin anew after some 20 minutes of full load, so they must be read more often
        than that. May be called from several threads.
        """
        with self._lock:
            for zone, before_j in self._last_j.items():
                self._last_j[zone] = _read_j(zone)
                self._sum_j[zone] += _risen_j(zone, before_j, self._last_j[zone])
            return dict(self._sum_j)

    def use(self, before_j: Mapping[Path, float], after_j: Mapping[Path, float]) -> CpuUse:
        """Return what was used between two readings."""
        if self.reason:
            return CpuUse(reason=self.reason)
        spent_j = {zone: after_j[zone] - before_j[zone] for zone in before_j}
        return CpuUse(
            known_package_j=sum(spent_j[zone] for zone in self._packages),
            known_dram_j=sum(spent_j[zone] for zone in self._drams) if self._drams else None,
        )

    @property
    def _zones(self) -> list[Path]:
        return self._packages + self._drams

    def _reason_unread(self, root: Path) -> str:
        if not self._packages:
            return f"This system shows no energy counter of its processors under {root}."
        try:
            for zone in self._zones:
                (zone / "energy_uj").read_text()
        except OSError as error:
            return (
                f"This system lets its processors' energy be read by others only ({error}); an "
                "administrator can allow it: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj."
            )
        return ""


def _risen_j(zone: Path, before_j: float, after_j: float) -> float:
    """Return how far a counter rose that may have begun anew in between."""
    if after_j >= before_j:
        return after_j - before_j
    return after_j - before_j + 1e-6 * int(_text(zone / "max_energy_range_uj"))


def _read_j(zone: Path) -> float:
    return 1e-6 * int((zone / "energy_uj").read_text())


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
