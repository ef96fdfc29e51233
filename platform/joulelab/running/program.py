"""What a program used that was run under measurement, and which GPUs count for it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from joulelab.core.device import DeviceAddress
from joulelab.core.measurement import Provenance
from joulelab.core.point import OperatingPoint
from joulelab.core.receipt import Receipt
from joulelab.devices.choice import find_visible
from joulelab.monitor.window import CpuUse, GpuTotals, GpuUse

NOT_SEEN = (
    "The program was seen on none of the GPUs that were watched. They are looked at once a second, "
    "so a shorter use is missed; name the GPU with --uuid, and it counts whether seen or not."
)


def beside(named: Collection[DeviceAddress], device: str, store: str | None) -> list[DeviceAddress]:
    """Return the GPUs that are watched besides those named: all others that may be used.

    Raises DeviceError if there is none at all.
    """
    known = {address.uuid for address in named}
    return [address for address in find_visible(device, store) if address.uuid not in known]


def counted(
    uses: Iterable[GpuUse], named: Collection[str]
) -> tuple[tuple[GpuUse, ...], tuple[GpuUse, ...]]:
    """Return what counts, those named by UUID or else those that were seen, and the others."""
    uses = tuple(uses)
    those = tuple(use for use in uses if (use.uuid in named if named else use.seen))
    return those, tuple(use for use in uses if use not in those)


def why_unknown(missing: str, gpus: Sequence[GpuUse]) -> str:
    """Say why the energy of the GPUs that count is not known; nothing if it is.

    ``missing`` says why no GPU counts; empty if one does.
    """
    if missing or not gpus:
        return missing or NOT_SEEN
    return "; ".join(use.reason for use in gpus if not use.valid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUse:
    """What a program used from its start to its end.

    Attributes:
        command: The program and its arguments.
        exit_code: Its exit code; 128 and the number of the signal that ended it.
        signal_name: That signal, if one did.
        duration_s: How long it ran, in seconds.
        gpus: The GPUs that count: those named, else those that the program was seen on.
        others: What other GPUs that were watched drew meanwhile.
        cpu: What the processors of the machine used.
        requested: What was put in force on the GPUs that count.
        receipts: What was read back when it was.
        notes: What else a reader must know.
        missing: Why no GPU counts; empty if one does.
        provenance: Where the result comes from.
    """

    command: tuple[str, ...]
    exit_code: int
    signal_name: str | None
    duration_s: float
    gpus: tuple[GpuUse, ...]
    others: tuple[GpuUse, ...]
    cpu: CpuUse
    requested: OperatingPoint
    receipts: tuple[Receipt, ...]
    notes: tuple[str, ...]
    missing: str
    provenance: Provenance

    @property
    def reason(self) -> str:
        """Why the energy is not known; empty if it is."""
        return why_unknown(self.missing, self.gpus)

    @property
    def known_energy_j(self) -> float | None:
        """Energy of the GPUs that count, in joules; ``None`` where :attr:`reason` says why."""
        return None if self.reason else GpuTotals.of(self.gpus).energy_j

    @property
    def known_energy_u_j(self) -> float | None:
        """Its standard uncertainty, in joules."""
        return None if self.reason else GpuTotals.of(self.gpus).energy_u_j

    @property
    def known_power_w(self) -> float | None:
        """Mean power of the GPUs that count, in watts."""
        return None if self.reason else GpuTotals.of(self.gpus).power_w

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that are known, by name."""
        found: dict[str, float | None] = {
            "duration_s": self.duration_s,
            "energy_j": self.known_energy_j,
            "energy_u_j": self.known_energy_u_j,
            "power_w": self.known_power_w,
            "cpu_package_energy_j": self.cpu.known_package_j,
            "cpu_dram_energy_j": self.cpu.known_dram_j,
        }
        for number, use in enumerate(self.gpus):
            found[f"gpu{number}_energy_j"] = use.known_energy_j
            found[f"gpu{number}_peak_power_w"] = use.peak_power_w
        return {name: value for name, value in found.items() if value is not None}
