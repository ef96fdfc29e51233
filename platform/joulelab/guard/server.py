"""The guard's event loop: whom it hears, and what it answers."""

import logging
import os
import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from math import inf
from typing import Any

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.choice import is_hardware, open_device
from joulelab.errors import ConfigError, GuardError, JouleLabError
from joulelab.guard import audit
from joulelab.guard.connection import Connection, Peer
from joulelab.guard.journal import Journal
from joulelab.guard.kept_device import OpenDevice
from joulelab.guard.lending import Lending
from joulelab.guard.policy import Gate, Policy
from joulelab.guard.processes import BEAT_S
from joulelab.guard.protocol import (
    PROTOCOL,
    GuardStatus,
    PendingRestore,
    address_from,
    decode,
    error_reply,
    point_from,
    printable,
)
from joulelab.guard.reception import Reception
from joulelab.guard.settings import GuardSettings, require_own_store

Answer = Callable[[Connection, Mapping[str, Any]], Any]

_ALWAYS_HEARD = ("renew", "reset", "release", "stop")
"""What gives back, or keeps a measurement from being lost for want of a turn."""

_log = logging.getLogger(__name__)


class GuardServer:
    """Lends the clocks of this node's devices: one connection, one lease, one device.

    One thread does everything: a request takes about a millisecond, and there is no moment at which
    two of them see half of each other's work. Serving ends by :meth:`stop`, by a client's request,
    or by idleness. ``beat`` is called about once a second while the loop turns.
    """

    def __init__(
        self,
        settings: GuardSettings,
        open_device: OpenDevice = open_device,
        beat: Callable[[], None] = lambda: None,
        gate: Gate | None = None,
    ) -> None:
        self.watchdog_pid: int | None = None
        self._settings = settings
        self.obey(gate)
        self._beat = beat
        self._beat_due_s = -inf
        self._lending = Lending(Journal(settings.state_dir), open_device)
        self._selector = selectors.DefaultSelector()
        self._reception = Reception(
            self._selector,
            answer=self._reply,
            holds=self._lending.holds,
            ended=self._lending.take_back,
        )
        self._stopping = False
        self._idle_since_s = time.monotonic()
        self._answers: dict[str, Answer] = {
            "lease": self._lease,
            "apply": self._apply,
            "reset": lambda connection, _: self._lending.reset(connection),
            "renew": lambda connection, _: self._lending.renew(connection),
            "release": lambda connection, _: self._lending.take_back(connection, "given back"),
            "status": self._status,
            "stop": self._stop,
        }

    @property
    def pending(self) -> tuple[PendingRestore, ...]:
        """What should have been restored but could not be yet."""
        return self._lending.pending

    def obey(self, gate: Gate | None) -> None:
        """Ask ``gate`` from now on; ``None`` lets all who connect. What is on loan stays so."""
        self._gate = gate or Gate(Policy(), "of this guard")

    def watch(self, file: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` from the loop whenever the descriptor ``file`` can be read."""
        self._selector.register(file, selectors.EVENT_READ, callback)

    def unwatch(self, file: int) -> None:
        """Look at the descriptor ``file`` no more."""
        self._selector.unregister(file)

    def stop(self) -> None:
        """End the serving after the current request."""
        self._stopping = True

    def serve(self) -> None:
        """Restore what a guard before this one left, then serve until asked to stop.

        On the way out every device is restored; one that cannot be stays in the journal.
        """
        self._lending.recover(self._beat)
        self._reception.open(self._settings)
        try:
            while not self._stopping:
                idle_s = inf if self._is_busy else self._idle_deadline_s
                due_s = min(self._lending.due_s, idle_s, self._beat_due_s, self._reception.due_s)
                for key, _ in self._selector.select(max(0.0, due_s - time.monotonic())):
                    key.data()
                self._tend()
        finally:
            self._settings.socket_path.unlink(missing_ok=True)
            self._reception.close("guard stopped")
            self._selector.close()

    def retry_until(self, deadline_s: float) -> None:
        """After serving, go on trying to restore what is pending, until ``deadline_s``."""
        while self.pending and time.monotonic() < deadline_s:
            time.sleep(max(0.0, min(self._lending.due_s, deadline_s) - time.monotonic()))
            self._lending.retry()

    def _reply(self, connection: Connection, line: bytes) -> dict[str, Any]:
        try:
            request = decode(line)
            return {"ok": self._answer_to(request, connection.peer)(connection, request)}
        except JouleLabError as error:
            return error_reply(error)
        except Exception as error:
            _log.exception("A request of pid %d failed.", connection.peer.pid)
            return error_reply(GuardError(f"The clock guard failed to do that: {error!r:.200}."))

    def _answer_to(self, request: Mapping[str, Any], peer: Peer) -> Answer:
        do, spoken = str(request.get("do")), request.get("protocol")
        if spoken != PROTOCOL and do not in ("status", "stop"):
            raise GuardError(
                f"This clock guard speaks protocol {PROTOCOL}, but was asked in {spoken!r:.20}: it "
                "is of another joulelab. End it with `joulelab guard --stop`, or use the joulelab "
                "it came with."
            )
        answer = self._answers.get(do)
        if answer is None:
            raise ConfigError(f"do must be one of {', '.join(self._answers)}, got {do!r:.80}.")
        if do not in _ALWAYS_HEARD:
            self._gate.require_may_ask(peer)
        return answer

    def _lease(self, connection: Connection, request: Mapping[str, Any]) -> dict[str, Any]:
        address = address_from(request.get("address"))
        if address.backend not in DEVICES:
            raise GuardError(
                f"The device {address.backend!r} must be known to the clock guard, and is not: "
                "install its package where the guard runs, and end a guard that began before that "
                "with `joulelab guard --stop`."
            )
        if not is_hardware(address):
            require_own_store(address.store, connection.peer.uid)
        note, ttl_s = printable(str(request.get("note", "")), 200), self._ttl_s(request)
        self._require(connection, address, self._gate.require_may_borrow)
        for other in self._reception:
            if other is not connection and other.is_over():
                self._reception.drop(other, "connection closed")
        self._lending.lend(connection, address, note=note, ttl_s=ttl_s)
        return {"guard_pid": os.getpid()}

    def _apply(self, connection: Connection, request: Mapping[str, Any]) -> dict[str, Any]:
        point, address = point_from(request.get("point")), self._lending.lent_to(connection)
        self._require(connection, address, partial(self._gate.require_may_set, point=point))
        return asdict(self._lending.apply(connection, point))

    def _require(
        self, connection: Connection, address: DeviceAddress, check: Callable[[Peer, str], None]
    ) -> None:
        """Let the policy check, and note whom it refuses."""
        try:
            check(connection.peer, address.uuid)
        except JouleLabError as error:
            audit.note("refused", address, connection.peer.pid, connection.peer.uid, str(error))
            raise

    def _status(self, _: Connection, __: Mapping[str, Any]) -> dict[str, Any]:
        status = GuardStatus(
            pid=os.getpid(),
            watchdog_pid=self.watchdog_pid,
            leases=self._lending.leases,
            pending=self._lending.pending,
        )
        return asdict(status)

    def _stop(self, connection: Connection, _: Mapping[str, Any]) -> None:
        if connection.peer.uid not in (0, os.getuid()):
            raise GuardError(f"Only uid {os.getuid()} or root may stop this clock guard.")
        for other in self._reception:
            if other is not connection:
                self._reception.drop(other, "stop asked")
        if self.pending:
            names = ", ".join(f"{one.address.uuid} ({one.error})" for one in self.pending)
            raise GuardError(f"The clock guard stays, since it cannot restore {names} yet.")
        self.stop()

    def _ttl_s(self, request: Mapping[str, Any]) -> float:
        asked, longest_s = request.get("ttl_s"), self._settings.max_ttl_s
        if not isinstance(asked, int | float) or asked is True or not 0 < asked <= longest_s:
            raise ConfigError(
                f"ttl_s must be above 0 and at most {longest_s:g}, got {asked!r:.80}."
            )
        return float(asked)

    def _tend(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._beat_due_s:
            self._beat_due_s = now_s + BEAT_S
            self._beat()
        self._reception.tend()
        for connection in self._lending.expired():
            message = "The lease was not renewed in time, so the device was restored."
            with suppress(OSError):
                connection.send(error_reply(GuardError(message)))
            self._reception.drop(connection, "lease expired")
        self._lending.retry()
        if self._is_busy:
            self._idle_since_s = now_s
        elif now_s >= self._idle_deadline_s:
            self.stop()

    @property
    def _is_busy(self) -> bool:
        return bool(len(self._reception) or self.pending)

    @property
    def _idle_deadline_s(self) -> float:
        idle_exit_s = self._settings.idle_exit_s
        return inf if idle_exit_s is None else self._idle_since_s + idle_exit_s
