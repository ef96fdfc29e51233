"""Who holds the clocks of a machine's GPUs on loan, and for which study."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from joulelab.core.measurement import Measurement
from joulelab.errors import JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import STUDY_NOTE, HeldLease
from joulelab.tracking.durable import last_line
from joulelab.tracking.store import ResultStore, parsed

_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A GPU on loan from the clock guard.

    Attributes:
        lease: Who holds it, what for, and at which operating point.
        study: Name of the study that holds it; ``None`` if it is none, or another user's.
        last_trial: Trial that the study measured last on it, likewise; what it measures now is
            known to its own process alone.
    """

    lease: HeldLease
    study: str | None = None
    last_trial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loans:
    """What a clock guard has on loan.

    Attributes:
        by_uuid: Loan of each GPU that has one.
        unrestored: Why the settings of a GPU that was on loan could not be restored yet.
        unread: Why the guard could not be asked; ``None`` if it answered.
    """

    by_uuid: dict[str, Loan] = field(default_factory=dict)
    unrestored: dict[str, str] = field(default_factory=dict)
    unread: str | None = None


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
