"""``joulelab guard``: run the clock guard of this node, ask it, or end it."""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from joulelab.core.bounds import DAY_S, check_positive
from joulelab.errors import ConfigError
from joulelab.guard import audit
from joulelab.guard.client import GuardClient
from joulelab.guard.policy import Gate, read_policy
from joulelab.guard.process import run_guard
from joulelab.guard.protocol import GuardStatus
from joulelab.guard.settings import GuardSettings, default_socket_path
from joulelab.guard.start import ensure_guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Run a clock guard in the foreground: it sets clocks for others, and always resets them.

    Experiments borrow the clocks of a GPU through its socket and need no privilege; the guard
    has it. Whichever way a borrower ends, the GPU is restored. Ctrl-C or SIGTERM restore all.
    """

    # Unix socket to listen on, an absolute path. By default the system's guard if there is one,
    # else this user's own under /tmp.
    socket: Path | None = None
    # Group whose members may borrow too; by default only the guard's own user may.
    group: str | None = None
    # TOML file that says who may set what, how often, and where to write down who did; by default
    # all who may connect may set anything. It is read again at SIGHUP.
    policy: Path | None = None
    # Longest time that a borrower may ask to keep a device without renewing.
    ttl_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 600.0
    status: bool = False  # Say who holds what, instead of running.
    stop: bool = False  # Restore everything and end the guard that runs.
    restore: bool = False  # Restore what a guard that died left set, and say so.
    json: bool = False  # Print one JSON object instead of text.

    def run(self) -> int:
        """Serve until a signal, or ask or end the guard that runs; 1 if a GPU was not restored."""
        check_positive("--ttl-s", self.ttl_s, DAY_S)
        if self.status + self.stop + self.restore > 1:
            raise ConfigError(
                "--status, --stop and --restore exclude each other; give one of them."
            )
        if self.restore:
            ensure_guard(self._socket_path)
        if self.status or self.restore:
            return self._tell(GuardClient(self._socket_path, start=False).status())
        if self.stop:
            GuardClient(self._socket_path, start=False).stop()
            print(json.dumps({"stopped": True}) if self.json else "The clock guard has ended.")
            return 0
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        settings = GuardSettings(
            socket_path=self._socket_path, group=self.group, max_ttl_s=self.ttl_s
        )
        return run_guard(settings, read_gate=self._gate)

    @property
    def _socket_path(self) -> Path:
        return self.socket or default_socket_path()

    def _gate(self) -> Gate | None:
        if self.policy is None:
            return None
        policy = read_policy(self.policy)
        gate = Gate(policy, str(self.policy))
        audit.keep_in(None if policy.audit_file is None else Path(policy.audit_file))
        return gate

    def _tell(self, status: GuardStatus) -> int:
        if self.json:
            print(json.dumps({"socket": str(self._socket_path), **asdict(status)}, indent=2))
        else:
            print("\n".join(_in_words(status, self._socket_path)))
        return 1 if status.pending else 0


def _in_words(status: GuardStatus, socket_path: Path) -> list[str]:
    lines = [f"Clock guard {status.pid} at {socket_path}, watchdog {status.watchdog_pid or 'none'}"]
    lines += [
        f"  {lease.address.uuid}: {lease.point}, pid {lease.pid} of uid {lease.uid} "
        f"({lease.note or 'no note'}), {lease.expires_in_s:.0f} s left"
        for lease in status.leases
    ]
    lines += [
        f"  {one.address.uuid}: NOT RESTORED after {one.attempts} tries: {one.error}"
        for one in status.pending
    ]
    return lines if len(lines) > 1 else [*lines, "  nothing is on loan"]
