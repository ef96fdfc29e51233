"""Who has the clocks of devices on loan, by the clock guards of this machine."""

import os
from collections.abc import Sequence
from pathlib import Path

from joulelab.core.device import DeviceAddress
from joulelab.devices.choice import with_store
from joulelab.errors import JouleLabError
from joulelab.guard.client import GuardClient
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import default_socket_path

_PATIENCE_S = 2.0


def holders(addresses: Sequence[DeviceAddress], guard_socket: Path | None = None) -> dict[str, str]:
    """Return who holds devices, by UUID, as others are to read it; starts no guard.

    What this process holds itself is left out, and so is what no guard answers for.

    Args:
        addresses: Devices of this machine.
        guard_socket: Where the clock guard listens; ``None`` for the usual place.
    """
    asked = {with_store(address) for address in addresses}
    sockets = {guard_socket or default_socket_path(address) for address in asked}
    return {
        lease.address.uuid: f"{lease.note or 'a process'} (pid {lease.pid})"
        for status in map(_status, sockets)
        if status is not None
        for lease in status.leases
        if lease.address in asked and lease.pid != os.getpid()
    }


def _status(socket_path: Path) -> GuardStatus | None:
    try:
        return GuardClient(socket_path, start=False).status(timeout_s=_PATIENCE_S)
    except JouleLabError:
        return None
