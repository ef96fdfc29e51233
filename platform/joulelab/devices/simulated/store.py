"""A simulated driver's state, kept outside every process as a real driver's is.

One folder per GPU, one small text file per attribute, written whole (temporary file, then
rename), so that whoever reads sees the old value or the new one. An absent file is an unset
attribute. Locked clocks and power limits outlive the process that set them, whichever way it
ended; that is what makes crash-restore testable.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4
from zlib import crc32

from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated.faults import Fault
from joulelab.errors import DeviceError, DeviceNotFoundError
from joulelab.hardware import GPUS, GpuSpec
from joulelab.registry import unknown_name

DRIVER_VERSION = "580.65.06"
"""What every simulated GPU reports."""

_SETTINGS = ("locked_sm_mhz", "locked_mem_mhz", "power_limit_mw")


def default_root() -> Path:
    """Return where simulated drivers keep their state unless set otherwise.

    One place for a user and a machine, as for a driver: ``TMPDIR`` may differ between a program and
    the guard that it borrows from. Raises DeviceError if somebody else made a folder or a link of
    that name.
    """
    own = Path(f"/tmp/joulelab-{os.getuid()}")  # noqa: S108 - checked below
    own.mkdir(mode=0o700, exist_ok=True)
    status = own.lstat()
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or writable:
        raise DeviceError(
            f"{own} must be a folder that belongs to uid {os.getuid()} and that others cannot "
            "write; remove what is there, or give another store."
        )
    return own / "driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can change under a running device."""

    # Lowest and highest SM clock allowed; None if unlocked.
    locked_sm_mhz: tuple[int, int] | None = None
    locked_mem_mhz: tuple[int, int] | None = None
    power_limit_w: float | None = None  # power limit; None for the default
    restricted: bool = False
    administrators: frozenset[int] = frozenset()  # processes that may set all the same
    faults: tuple[Fault, ...] = ()

    @property
    def point(self) -> OperatingPoint:
        """The settings as an operating point; of a lock to a range of clocks, the upper end."""
        return OperatingPoint(
            sm_clock_mhz=None if self.locked_sm_mhz is None else self.locked_sm_mhz[1],
            mem_clock_mhz=None if self.locked_mem_mhz is None else self.locked_mem_mhz[1],
            power_limit_w=self.power_limit_w,
        )


class DriverState:
    """The state of one simulated GPU, in a folder named after its UUID."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def uuid(self) -> str:
        """UUID of the GPU."""
        return self.folder.name

    @property
    def kind(self) -> str:
        """Its name in the catalogue, be it there or not."""
        return self._required("catalogue")

    @property
    def spec(self) -> GpuSpec:
        """What kind of GPU it is; DeviceNotFoundError if the catalogue does not have it."""
        if self.kind not in set(GPUS):
            raise DeviceNotFoundError(self.unknown_words())
        return GPUS[self.kind]

    def unknown_words(self) -> str:
        """Say that the catalogue does not have its kind, and what to do."""
        return (
            f"{self.folder} keeps a simulated GPU {self.kind!r}, which the catalogue does not "
            "have: add its file again, or delete that folder."
        )

    @property
    def seed(self) -> int:
        """Seed of everything in which boards of one kind differ."""
        return int(self._required("seed"))

    @property
    def index(self) -> int:
        """Position in the driver's order."""
        return int(self._required("index"))

    @property
    def driver_version(self) -> str:
        """Driver version that the GPU reports."""
        return self._required("driver_version")

    def read(self, name: str) -> str | None:
        """Return attribute ``name``; ``None`` if it is unset."""
        try:
            return (self.folder / name).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str | None) -> None:
        """Set attribute ``name``, or unset it with ``None``, in one step."""
        if text is None:
            (self.folder / name).unlink(missing_ok=True)
            return
        temporary = self.folder / f".{name}.{os.getpid()}.{uuid4().hex[:8]}"
        temporary.write_text(text + "\n", encoding="ascii")
        temporary.replace(self.folder / name)

    def settings(self) -> Settings:
        """Read everything that can change under a running device."""
        limit_mw = self.read("power_limit_mw")
        return Settings(
            locked_sm_mhz=_pair(self.read("locked_sm_mhz")),
            locked_mem_mhz=_pair(self.read("locked_mem_mhz")),
            power_limit_w=None if limit_mw is None else int(limit_mw) / 1000,
            restricted=self.read("restricted") == "1",
            administrators=frozenset(map(int, (self.read("administrators") or "").split())),
            faults=tuple(map(Fault.parse, (self.read("faults") or "").splitlines())),
        )

    def lock_sm(self, min_mhz: int, max_mhz: int) -> None:
        """Confine the SM clock."""
        self.write("locked_sm_mhz", f"{min_mhz} {max_mhz}")

    def lock_mem(self, min_mhz: int, max_mhz: int) -> None:
        """Confine the memory clock."""
        self.write("locked_mem_mhz", f"{min_mhz} {max_mhz}")

    def limit_power(self, limit_w: float) -> None:
        """Set the board power limit."""
        self.write("power_limit_mw", str(round(limit_w * 1000)))

    def apply(self, point: OperatingPoint) -> None:
        """Lock the clocks and limit the power as ``point`` says; ``None`` in it changes nothing."""
        if point.sm_clock_mhz is not None:
            self.lock_sm(point.sm_clock_mhz, point.sm_clock_mhz)
        if point.mem_clock_mhz is not None:
            self.lock_mem(point.mem_clock_mhz, point.mem_clock_mhz)
        if point.power_limit_w is not None:
            self.limit_power(point.power_limit_w)

    def reset(self) -> None:
        """Unset every setting, as the driver's reset calls do."""
        for name in _SETTINGS:
            self.write(name, None)

    def grant(self, pid: int) -> None:
        """Let process ``pid`` call the setters though they are restricted."""
        held = set((self.read("administrators") or "").split())
        self.write("administrators", " ".join(sorted(held | {str(pid)}, key=int)))

    def inject(self, *faults: Fault) -> None:
        """Add ``faults`` to those already there."""
        lines = (self.read("faults") or "").splitlines()
        self.write("faults", "\n".join([*lines, *(fault.line for fault in faults)]))

    def clear_faults(self) -> None:
        """Take every fault away."""
        self.write("faults", None)

    def _required(self, name: str) -> str:
        text = self.read(name)
        if text is None:
            raise DeviceNotFoundError(
                f"No simulated GPU {self.uuid} in {self.folder.parent}: it has no {name!r}."
            )
        return text


class DriverStore:
    """All simulated GPUs of one driver, a folder each; ``None`` for the default root."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = default_root() if root is None else Path(root)

    def create(
        self,
        catalogue_key: str,
        index: int = 0,
        *,
        seed: int | None = None,
        restricted: bool = False,
    ) -> DriverState:
        """Return the GPU ``SIM-<catalogue_key>-<index>``, made if it is not there yet.

        Without a ``seed`` of its traits, it derives from the UUID. ``restricted`` lets setters need
        privilege, as on a real node; of a GPU that is there already, nothing changes. Raises
        UnknownNameError if the catalogue has no such GPU.
        """
        spec = GPUS[catalogue_key]
        uuid = f"SIM-{spec.key}-{index}"
        if not (self.root / uuid).is_dir():
            self._make(
                uuid, spec, index, crc32(uuid.encode()) if seed is None else seed, restricted
            )
        return DriverState(self.root / uuid)

    def state(self, uuid: str) -> DriverState:
        """Return the GPU called ``uuid``, made if its name says of which kind it is.

        Raises DeviceNotFoundError if there is none and the name does not say.
        """
        if (self.root / uuid).is_dir():
            return DriverState(self.root / uuid)
        prefix, _, index = uuid.rpartition("-")
        key = prefix.removeprefix("SIM-")
        if not (uuid.startswith("SIM-") and index.isdigit() and key in set(GPUS)):
            raise DeviceNotFoundError(
                f"No simulated GPU {uuid!r} in {self.root}: there is "
                f"{', '.join(self.uuids()) or 'none'}. A new one is called SIM-<GPU>-<index>. "
                + str(unknown_name("GPU", key, GPUS))
            )
        return self.create(key, int(index))

    def uuids(self) -> tuple[str, ...]:
        """Return the GPUs that are there and that the catalogue has, in the driver's order."""
        there = [state for state in self._states() if state.kind in set(GPUS)]
        return tuple(s.uuid for s in sorted(there, key=lambda s: (s.kind, s.index)))

    def unknown(self) -> tuple[DriverState, ...]:
        """Return the GPUs that are there and that the catalogue does not have."""
        return tuple(state for state in self._states() if state.kind not in set(GPUS))

    def locked_uuids(self) -> tuple[str, ...]:
        """Return the GPUs on which any setting is in force."""
        return tuple(
            uuid
            for uuid in self.uuids()
            if any((self.root / uuid / name).exists() for name in _SETTINGS)
        )

    def _states(self) -> list[DriverState]:
        folders = self.root.iterdir() if self.root.is_dir() else ()
        return [
            DriverState(folder)
            for folder in folders
            if not folder.name.startswith(".") and (folder / "catalogue").is_file()
        ]

    def _make(self, uuid: str, spec: GpuSpec, index: int, seed: int, restricted: bool) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{uuid}.", dir=self.root))
        limits_w = (*spec.power_limits_w, spec.default_power_limit_w)
        static = {
            "name": spec.product_names[0],
            "catalogue": spec.key,
            "index": str(index),
            "seed": str(seed),
            "driver_version": DRIVER_VERSION,
            "sm_clocks_mhz": _words(spec.sm_clocks_mhz),
            "mem_clocks_mhz": _words(spec.mem_clocks_mhz),
            "power_limit_range_mw": _words(round(limit_w * 1000) for limit_w in limits_w),
            **({"restricted": "1"} if restricted else {}),
        }
        for name, text in static.items():
            (draft / name).write_text(text + "\n", encoding="ascii")
        try:
            draft.rename(self.root / uuid)
        except OSError:
            if not (self.root / uuid / "catalogue").is_file():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _words(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    words: Sequence[str] = text.split()
    return int(words[0]), int(words[-1])
