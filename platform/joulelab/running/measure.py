"""Run a program and measure what it uses."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.core.receipt import Receipt
from joulelab.devices.base import Device
from joulelab.errors import JouleLabError
from joulelab.guard import GuardClient, ObserveOnly
from joulelab.guard.client import Lease
from joulelab.monitor.monitor import Monitor
from joulelab.monitor.opening import open_in_real_time
from joulelab.monitor.window import GpuUse
from joulelab.provenance import collect_provenance
from joulelab.running.child import Child
from joulelab.running.program import ProgramUse, counted

UNSEEN_START_S = 0.05
"""A later begin of the samples than this is told."""


@dataclass(slots=True, kw_only=True)
class Settings:
    """What is in force while a program runs: clocks on loan, or a look that nothing is set.

    Attributes:
        point: What was asked for.
        receipts: What was read back of it, for each GPU.
        leases: The loans, which end with the run.
    """

    point: OperatingPoint = field(default_factory=OperatingPoint)
    receipts: tuple[Receipt, ...] = ()
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
) -> Settings:
    """Put ``point`` in force on every GPU until ``stack`` closes, which gives everything back.

    With ``observe_only`` find that it is in force already, and set nothing. The clock guard listens
    at ``guard_socket``, ``None`` for the usual place; ``note`` says who borrows. Raises
    JouleLabError if it cannot be had; what was taken until then is given back.
    """
    if observe_only:
        looks = [_looked_at(point, address, guard_socket) for address in addresses]
        return Settings(point=point, receipts=tuple(looks))
    client = GuardClient(guard_socket)
    leases = [stack.enter_context(client.lease(address, note=note)) for address in addresses]
    receipts = tuple(lease.apply(point) for lease in leases)
    return Settings(point=point, receipts=receipts, leases=tuple(leases))


def measure_child(
    child: Child,
    *,
    named: Sequence[DeviceAddress],
    watched: Sequence[DeviceAddress],
    missing: str = "",
    settings: Settings | None = None,
) -> ProgramUse:
    """Measure a program that has just been started until it has ended.

    It ends with the program itself, whose exit code a caller waits for. Processes that outlive it
    are named, and what they use from then on is not in the result. The GPUs in ``named`` count
    whatever is seen, else those that it is seen on; ``missing`` says why none is watched.
    """
    provenance = collect_provenance()
    settings = settings or Settings()
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


def _looked_at(point: OperatingPoint, address: DeviceAddress, guard_socket: Path | None) -> Receipt:
    device = open_in_real_time(address)
    try:
        return ObserveOnly(device, address, guard_socket=guard_socket).apply(point)
    finally:
        device.close()


def _notes(
    child: Child, duration_s: float, counted: Sequence[GpuUse], others: Sequence[GpuUse]
) -> list[str]:
    """Say what the numbers alone do not."""
    warnings = [
        f"{use.uuid} was named, but the program was not seen on it."
        for use in counted
        if not use.seen
    ]
    warnings += [
        f"{use.uuid} was not named, but the program was seen on it; its energy is not counted."
        for use in others
        if use.seen
    ]
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
