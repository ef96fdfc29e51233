"""Run a program, measure what it uses, and say which GPUs count for it."""

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.core.measurement import Provenance
from joulelab.core.point import OperatingPoint, Receipt
from joulelab.devices.base import Device
from joulelab.devices.choice import find_default, open_in_real_time
from joulelab.errors import JouleLabError
from joulelab.guard import GuardClient, ObserveOnly
from joulelab.guard.client import Lease
from joulelab.monitor.monitor import Monitor
from joulelab.monitor.window import CpuUse, GpuTotals, GpuUse
from joulelab.provenance import collect_provenance
from joulelab.running.child import Child

NOT_SEEN = (
    "The program was seen on none of the GPUs that were watched. They are looked at once a second, "
    "so a shorter use is missed; name the GPU with --uuid, and it counts whether seen or not."
)


def beside(named: Collection[DeviceAddress], device: str, store: str | None) -> list[DeviceAddress]:
    """Return the GPUs that are watched besides those named: all others that may be used.

    Of simulated ones those of a ``store`` alone, since no other program runs on them. Raises
    DeviceError if there is none at all.
    """
    if named and device == "simulated" and store is None:
        return []
    known = {address.uuid for address in named}
    return [address for address in find_default(device, store) if address.uuid not in known]


def counted(
    uses: Iterable[GpuUse], named: Collection[str]
) -> tuple[tuple[GpuUse, ...], tuple[GpuUse, ...]]:
    """Return what counts, those named by UUID or else those that were seen, and the others."""
    uses = tuple(uses)
    those = tuple(use for use in uses if (use.uuid in named if named else use.seen))
    return those, tuple(use for use in uses if use not in those)


def notes_of_sight(what: str, counted: Iterable[GpuUse], others: Iterable[GpuUse]) -> list[str]:
    """Say on which GPUs what ran was not seen though they count, and the other way round."""
    warnings = [
        f"{use.uuid} was named, but the {what} was not seen on it."
        for use in counted
        if not use.seen
    ]
    warnings += [
        f"{use.uuid} was not named, but the {what} was seen on it; its energy is not counted."
        for use in others
        if use.seen
    ]
    return warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the GPUs that count and the processors used, whatever ran on them."""

    # The GPUs that count: those named, else those that what ran was seen on.
    gpus: tuple[GpuUse, ...]
    others: tuple[GpuUse, ...]  # what other GPUs that were watched drew meanwhile
    cpu: CpuUse  # what the processors of the machine used
    requested: OperatingPoint
    receipts: tuple[Receipt, ...]  # what was read back when it was
    notes: tuple[str, ...]  # what else a reader must know
    missing: str  # why no GPU counts; empty if one does
    provenance: Provenance  # where the result comes from

    @property
    def reason(self) -> str:
        """Why the energy of the GPUs that count is not known; empty if it is."""
        if self.missing or not self.gpus:
            return self.missing or NOT_SEEN
        return "; ".join(use.reason for use in self.gpus if not use.valid)

    @property
    def totals(self) -> dict[str, float]:
        """What the GPUs that count used together, by name; empty where :attr:`reason` says why."""
        return {} if self.reason else asdict(GpuTotals.of(self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUse(Use):
    """What a program used from its start to its end."""

    command: tuple[str, ...]
    exit_code: int
    signal_name: str | None  # that signal, if one did
    duration_s: float

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that are known, by name."""
        found: dict[str, float | None] = {
            "duration_s": self.duration_s,
            **self.totals,
            "cpu_package_energy_j": self.cpu.known_package_j,
            "cpu_dram_energy_j": self.cpu.known_dram_j,
        }
        for number, use in enumerate(self.gpus):
            found[f"gpu{number}_energy_j"] = use.known_energy_j
            found[f"gpu{number}_peak_power_w"] = use.peak_power_w
        return {name: value for name, value in found.items() if value is not None}


UNSEEN_START_S = 0.05
"""A later begin of the samples than this is reported."""


@dataclass(slots=True, kw_only=True)
class InForce:
    """What is in force while a program runs: clocks on loan, or a look that nothing is set."""

    point: OperatingPoint = field(default_factory=OperatingPoint)
    receipts: tuple[Receipt, ...] = ()  # what was read back of it, for each GPU
    leases: tuple[Lease, ...] = ()

    @property
    def lost(self) -> list[str]:
        """Why clocks may not have been in force, for each loan that was lost."""
        warnings = []
        for lease in self.leases:
            try:
                lease.require_held()
            except JouleLabError as error:
                warnings.append(f"lease_lost: {error} The clocks may have been others since.")
        return warnings


def borrow(
    stack: ExitStack,
    point: OperatingPoint,
    addresses: Sequence[DeviceAddress],
    *,
    observe_only: bool,
    guard_socket: Path | None,
    note: str,
) -> InForce:
    """Put ``point`` in force on every GPU until ``stack`` closes, which gives everything back.

    With ``observe_only`` find that it is in force already, and set nothing. The clock guard listens
    at ``guard_socket``, ``None`` for the usual place; ``note`` says who borrows. Raises
    JouleLabError if it cannot be had; what was taken until then is given back.
    """
    if observe_only:
        looks = []
        for address in addresses:
            with closing(open_in_real_time(address)) as device:
                observer = ObserveOnly(device, address, guard_socket=guard_socket)
                looks.append(observer.apply(point))
        return InForce(point=point, receipts=tuple(looks))
    client = GuardClient(guard_socket)
    leases = [stack.enter_context(client.lease(address, note=note)) for address in addresses]
    receipts = tuple(lease.apply(point) for lease in leases)
    return InForce(point=point, receipts=receipts, leases=tuple(leases))


def measure_child(
    child: Child,
    *,
    named: Sequence[DeviceAddress],
    watched: Sequence[DeviceAddress],
    missing: str = "",
    settings: InForce | None = None,
) -> ProgramUse:
    """Measure a program that has just been started until it has ended.

    It ends with the program itself, whose exit code a caller waits for. Processes that outlive it
    are named, and what they use from then on is not in the result. The GPUs in ``named`` count
    whatever is seen, else those that it is seen on; ``missing`` says why none is watched.
    """
    provenance = collect_provenance()
    settings = settings or InForce()
    devices: list[Device] = []
    try:
        devices += [open_in_real_time(address) for address in watched]
        monitor = Monitor(devices=devices, synchronise=False, requested=settings.point).start()
    except JouleLabError as error:  # the program runs all the same
        missing = str(error)
        monitor = Monitor(devices=[]).start()
    try:
        window = monitor.begin(child.command[0], ago_s=time.monotonic() - child.started_s)
        duration_s = child.wait()
        monitor.end(window, ago_s=time.monotonic() - child.ended_s)
        notes = settings.lost
    finally:
        monitor.stop()
        for device in devices:
            device.close()
    those, others = counted(window.gpus.values(), {address.uuid for address in named})
    return ProgramUse(
        command=child.command,
        exit_code=child.exit_code,
        signal_name=child.signal_name,
        duration_s=duration_s,
        gpus=those,
        others=others,
        cpu=window.cpu,
        requested=settings.point,
        receipts=settings.receipts,
        notes=(*notes, *_notes(child, duration_s, those, others)),
        missing=missing,
        provenance=provenance,
    )


def _notes(
    child: Child, duration_s: float, counted: Sequence[GpuUse], others: Sequence[GpuUse]
) -> list[str]:
    """Say what the numbers alone do not."""
    warnings = notes_of_sight("program", counted, others)
    late_s = max((duration_s - use.duration_s for use in counted), default=0.0)
    if late_s > UNSEEN_START_S:
        warnings.append(
            f"The first {late_s:.2f} s of the program are not in the energy: the driver holds no "
            "samples from before it was asked."
        )
    left = child.outlived_by()
    if left:
        warnings.append(
            f"The program left processes behind: {', '.join(left)}. What they use after "
            "its end is not measured."
        )
    return warnings
