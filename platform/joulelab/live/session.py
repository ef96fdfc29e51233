"""Several GPUs of this machine, looked at together for as long as somebody watches."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from joulelab.core.device import DeviceAddress
from joulelab.core.measurement import Measurement
from joulelab.devices import DEVICES
from joulelab.errors import JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import STUDY_NOTE, HeldLease
from joulelab.guard.settings import default_socket_path
from joulelab.live.reading import LiveGpu, LiveReading
from joulelab.tracking.durable import last_line
from joulelab.tracking.store import ResultStore, parsed

_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A GPU on loan from the clock guard."""

    lease: HeldLease  # who holds it, what for, and at which operating point
    # Name of the study that holds it; None if it is none, or another user's.
    study: str | None = None
    # Trial that the study measured last on it, likewise; what it measures now is known to its own
    # process alone.
    last_trial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loans:
    """What a clock guard has on loan."""

    by_uuid: dict[str, Loan] = field(default_factory=dict)  # loan of each GPU that has one
    # Why the settings of a GPU that was on loan could not be restored yet.
    unrestored: dict[str, str] = field(default_factory=dict)
    unread: str | None = None  # why the guard could not be asked; None if it answered


def read_loans(socket_path: Path) -> Loans:
    """Ask the clock guard at ``socket_path``; starts none, and waits a second at most."""
    try:
        status = GuardClient(socket_path, start=False).status(timeout_s=_PATIENCE_S)
    except JouleLabError as error:
        return Loans(unread=str(error))
    return Loans(
        by_uuid={lease.address.uuid: loan_of(lease) for lease in status.leases},
        unrestored={each.address.uuid: each.error for each in status.pending},
    )


def loan_of(lease: HeldLease) -> Loan:
    """Look up the study of a lease of this user's.

    Another user's note may name any path: nothing is read from there.
    """
    if not lease.note.startswith(STUDY_NOTE) or lease.uid != os.getuid():
        return Loan(lease=lease)
    folder = Path(lease.note.removeprefix(STUDY_NOTE))
    try:
        header = ResultStore(folder).read_study()
        last = _last_measurement(folder, lease.address.uuid)
    except (JouleLabError, OSError):
        return Loan(lease=lease)
    return Loan(
        lease=lease,
        study=None if header is None else header.name,
        last_trial=None if last is None else last.trial,
    )


def _last_measurement(folder: Path, uuid: str) -> Measurement | None:
    """Return what the newest of the GPU's files in a study's results folder ends with."""
    files = list((folder / "measurements").glob(f"{uuid}@*.jsonl"))
    if not files:
        return None
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    line = last_line(newest)
    found = None if line is None else parsed(str(newest), line)
    return found if isinstance(found, Measurement) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What the GPUs of a machine are doing now."""

    gpus: tuple[LiveReading, ...]  # a reading of each, in the driver's order
    loans: Loans  # what the clock guard has on loan
    # Processor time that this process has used since it began to watch, as a share of one core;
    # None at the first look.
    core_share: float | None


class LiveSession:
    """Opens GPUs for reading only, in the program's time, and looks at them when asked.

    They are given by their place in the driver's order. The guard at ``guard_socket``, by default
    the one that studies take, is asked who holds what.

    Raises:
        DeviceError: If a GPU cannot be opened.
    """

    def __init__(
        self,
        addresses: Mapping[int, DeviceAddress],
        *,
        guard_socket: Path | None = None,
        slow_period_s: float = 5.0,
    ) -> None:
        some = next(iter(addresses.values()))
        self._socket = guard_socket or default_socket_path(some)
        self._open = ExitStack()
        self._gpus: list[LiveGpu] = []
        with self._open:
            for index, address in sorted(addresses.items()):
                opened = DEVICES[address.backend].open_in_real_time(address)
                device = self._open.enter_context(closing(opened))
                self._gpus.append(LiveGpu(index, device, slow_period_s=slow_period_s))
            self._open = self._open.pop_all()
        self._began: tuple[float, float] | None = None

    def look(self) -> LiveView:
        """Read every GPU once, and who holds it."""
        gpus = tuple(gpu.read() for gpu in self._gpus)
        loans = read_loans(self._socket)
        return LiveView(gpus=gpus, loans=loans, core_share=self._core_share())

    def close(self) -> None:
        """Let go of the GPUs. Safe to call twice."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _core_share(self) -> float | None:
        now = (time.monotonic(), time.process_time())
        if self._began is None:
            self._began = now
            return None
        return (now[1] - self._began[1]) / (now[0] - self._began[0])
