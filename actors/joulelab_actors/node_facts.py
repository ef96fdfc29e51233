"""What a node of a cluster says about itself, for ``joulelab doctor --cluster``; no Ray in here."""

import fcntl
import os
import platform
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import joulelab
from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.devices.choice import choose_backend, is_hardware, usable
from joulelab.errors import GuardError, JouleLabError, one_line
from joulelab.guard import default_socket_path
from joulelab.guard.control import owed_on
from joulelab.guard.inquiry import outlives_job, pid_of_guard
from joulelab.provenance import joulelab_version, package_version
from joulelab.tracking.durable import check_folder
from joulelab.tracking.study_lock import has_local_locks, kind_of

_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """A GPU as its node sees it."""

    uuid: str
    backend: str  # how it is reached
    is_hardware: bool  # whether programs run on it
    name: str = ""  # product; "" if it could not be opened
    driver_version: str = ""  # "" if unread
    reads: tuple[str, ...] = ()  # sensors that could be read just now
    lacks: tuple[str, ...] = ()  # those that could not
    # Whether a process there may set clocks; None if only a try would tell.
    can_set_clocks: bool | None = None
    owed: str = ""  # why it has settings that a guard must still restore; "" if it has none
    trouble: str = ""  # why it cannot be used; "" if it can


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFacts:
    """The clock guard of a node."""

    pid: int | None = None  # the one that answers; None if one starts when it is needed
    is_root: bool = False  # whether it has the rights of root
    # Whether it goes on, or would, when SLURM ends this job with all its processes; None outside a
    # job.
    outlives_job: bool | None = None
    trouble: str = ""  # why there is none to be had; "" if there is


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """The results folder as a node sees it."""

    path: str  # where it is there, as an absolute path
    kind: str = ""  # kind of its file system, such as "nfs4"; "" if unknown
    free_b: int = 0  # free space, in bytes
    has_locks: bool = False  # whether a file in it can be locked, for other nodes too
    sees_mark: bool = False  # whether it holds the file that the driver has put there
    trouble: str = ""  # why it cannot be used; "" if it can


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node says about itself; :attr:`versions` are by package, ``None`` where absent."""

    hostname: str
    gpus: tuple[GpuFacts, ...]
    gpu_trouble: str
    guard: GuardFacts
    folder: FolderFacts
    versions: dict[str, str | None]


def facts_of_node(backend: str, store: str | None, results_dir: Path, mark: str) -> NodeFacts:
    """Look at the machine that this process runs on; nothing on it is changed.

    ``backend`` is the registry name of the device class, or ``"auto"``; ``store`` the folder of
    state or recordings, for devices that are not hardware; ``mark`` the name of the file that the
    driver has put into the results folder.
    """
    gpus, trouble = _find_gpus(backend, store)
    return NodeFacts(
        hostname=socket.gethostname(),
        gpus=gpus,
        gpu_trouble=trouble,
        guard=_guard_facts(None if not gpus or gpus[0].is_hardware else gpus[0], store),
        folder=_folder_facts(results_dir.expanduser().absolute(), mark),
        versions=versions_here(),
    )


def unix_time_s() -> float:
    """Return the time of this machine's clock, in seconds since 1970."""
    return time.time()


def versions_here() -> dict[str, str | None]:
    """Return the versions that this process runs, by package; ``None`` where one is absent."""
    return {
        "joulelab": joulelab_version(),
        "code": code_version(),
        "Python": platform.python_version(),
        "torch": package_version("torch"),
        "ray": package_version("ray"),
    }


def _find_gpus(backend: str, store: str | None) -> tuple[tuple[GpuFacts, ...], str]:
    try:
        name = choose_backend().name if backend == "auto" else backend
        addresses = usable(DEVICES[name].discover(store))
    except JouleLabError as error:
        return (), one_line(error)
    return tuple(map(_gpu_facts, addresses)), ""


def _gpu_facts(address: DeviceAddress) -> GpuFacts:
    backend, hardware = address.backend, is_hardware(address)
    try:
        with closing(DEVICES[backend].open(address)) as device:
            known, reads = device.identity(), tuple(_readable(device))
            return GpuFacts(
                uuid=address.uuid,
                backend=backend,
                is_hardware=hardware,
                name=known.name,
                driver_version=known.driver_version,
                reads=reads,
                lacks=tuple(each for each in _SENSORS if each not in reads),
                can_set_clocks=device.capabilities().can_set_clocks,
                owed=_owed(address),
            )
    except JouleLabError as error:
        trouble = one_line(error)
        return GpuFacts(uuid=address.uuid, backend=backend, is_hardware=hardware, trouble=trouble)


_SENSORS = ("power", "state", "energy", "samples", "memory power", "activity")


def _readable(device: Device) -> Iterator[str]:
    able = device.capabilities()
    calls = {"power": device.read_power_w, "state": device.read_state}
    if able.has_energy_counter:
        calls |= {"energy": device.read_energy_j}
    if able.has_power_samples:
        calls |= {"samples": device.read_power_samples}
    if able.has_memory_power:
        calls |= {"memory power": device.read_memory_power_w}
    for name, read in calls.items():
        with suppress(JouleLabError):
            read()
            yield name
    if able.has_activity:
        yield "activity"


def _owed(address: DeviceAddress) -> str:
    entry = owed_on(address)
    return "" if entry is None else f"pid {entry.pid} set it at {entry.time}"


def _guard_facts(simulated: GpuFacts | None, store: str | None) -> GuardFacts:
    address = None
    if simulated is not None:
        address = DeviceAddress(backend=simulated.backend, uuid=simulated.uuid, store=store)
    socket_path = default_socket_path(address)
    try:
        pid = pid_of_guard(socket_path, _PATIENCE_S)
        uid = os.getuid() if pid is None else socket_path.stat().st_uid
    except (GuardError, OSError) as error:
        return GuardFacts(trouble=one_line(error))
    return GuardFacts(pid=pid, is_root=uid == 0, outlives_job=outlives_job(pid, socket_path))


def _folder_facts(folder: Path, mark: str) -> FolderFacts:
    try:
        check_folder(folder)
        there = next(each for each in (folder, *folder.parents) if each.exists())
        return FolderFacts(
            path=str(folder),
            kind=kind_of(there),
            free_b=shutil.disk_usage(there).free,
            has_locks=_has_locks(there) and not has_local_locks(there),
            sees_mark=(folder / mark).exists(),
        )
    except (JouleLabError, OSError) as error:
        return FolderFacts(path=str(folder), trouble=one_line(error))


def _has_locks(folder: Path) -> bool:
    with NamedTemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@cache
def code_version() -> str:
    """Return twelve hex digits that change with any line of either package: the code of a process.

    Driver and actors must run the same.
    """
    digest = sha256()
    for root in (Path(joulelab.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
