"""What a guard did, and for whom: one line each, on its output and in a file of its own."""

import json
import logging
import time
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Literal

from typing_extensions import override

from joulelab.core.device import DeviceAddress
from joulelab.errors import GuardError

AuditEvent = Literal["leased", "refused", "set", "failed", "restored", "unrestored", "ended"]

_log = logging.getLogger(__name__)


def note(
    event: AuditEvent, address: DeviceAddress, pid: int | None, uid: int | None, detail: str
) -> None:
    """Write a line: what happened to which device, for which process of which user, and why."""
    _log.info("%s %s uid=%s pid=%s %s", event, address.uuid, uid, pid, json.dumps(detail))


class _AuditFile(WatchedFileHandler):
    """A file that takes no line rather than keep a guard from restoring."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # of opening it anew, after it was moved away
            self.handleError(record)


def keep_in(path: Path | None) -> None:
    """Write the lines into a file as well, with the time (UTC); it may be moved away at any time.

    It takes the place of the file before it; ``None`` is for none. Raises GuardError if it cannot
    be written.
    """
    try:
        handler = None if path is None else _AuditFile(path, encoding="utf-8")
    except OSError as error:
        raise GuardError(
            f"audit_file must be a file that the clock guard can write, but: {error}."
        ) from error
    for before in [each for each in _log.handlers if isinstance(each, _AuditFile)]:
        _log.removeHandler(before)
        before.close()
    if handler is None:
        return
    formatter = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
