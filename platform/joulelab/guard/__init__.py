"""Clocks on loan: a process per node that sets them, and always gives them back."""

from joulelab.guard.client import GuardClient, Lease
from joulelab.guard.control import ObserveOnly
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import GuardSettings, default_socket_path
from joulelab.guard.start import ensure_guard

__all__ = [
    "GuardClient",
    "GuardSettings",
    "GuardStatus",
    "Lease",
    "ObserveOnly",
    "default_socket_path",
    "ensure_guard",
]
