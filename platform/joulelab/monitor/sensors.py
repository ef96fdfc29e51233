"""The GPUs of a monitor: which, how they are opened, their sensors, and whose the processes are.

The sensors of a GPU are read by all monitors of this process together. The table of them is this
module's only state: two monitors that know nothing of each other must not read a GPU twice, which
would cost the program twice.
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence

from joulelab.core.device import DeviceAddress
from joulelab.devices.base import Device
from joulelab.devices.choice import find_visible, open_in_real_time
from joulelab.errors import DeviceNotFoundError
from joulelab.sampling.cuda_device import descends
from joulelab.sampling.meter import Meter
from joulelab.sampling.sampler import Sampler

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""``PROC_PID_INIT_INO`` of the Linux kernel (include/linux/proc_ns.h)."""


def find_gpus(
    device: str, store: str | None, gpus: Iterable[str | int] | None
) -> tuple[DeviceAddress, ...]:
    """Find the GPUs that a monitor watches; its arguments are those of the monitor.

    Raises DeviceNotFoundError if there is no such GPU; names those that there are.
    """
    there = find_visible(device, store)
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
