"""``joulelab watch``: the page of a study that goes on, served to this machine alone."""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import tyro

from joulelab.core.bounds import DAY_S, check_positive, check_range
from joulelab.errors import ConfigError, JouleLabError, one_line
from joulelab.extras import ANALYSIS, require
from joulelab.tracking.store import DEFAULT_RESULTS
from joulelab.tracking.study import STATE
from joulelab.tracking.study_lock import holder_of
from joulelab.tracking.ui import HOST, free_port

_HEADER = "study.json"
_NICENESS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Serve the page of a running study until Ctrl-C: how far it is, and what it has so far.

    The page is made of the results folder, and loads itself anew. It is served to this machine
    alone, and made only when somebody looks and something is new.

    Attributes:
        study: Results folder of one study, or a folder that holds several: then the newest.
        interval_s: Time after which the page asks again.
        port: Port to listen on; the next free one if it is taken.
    """

    study: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    interval_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 5.0
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8765

    def run(self) -> int:
        """Serve until interrupted.

        Raises:
            ConfigError: If there is no study, or no free port.
        """
        check_positive("--interval-s", self.interval_s, DAY_S)
        check_range("--port", self.port, 1, 65535)
        require(*ANALYSIS)
        folder = self.study.expanduser()
        newest_study(folder)  # refuses a folder without one
        os.nice(_NICENESS)  # on a node that measures, drawing gives way
        handler = _handler(LivePage(folder).text, self.interval_s)
        with ThreadingHTTPServer((HOST, free_port(self.port)), handler) as server:
            where = f"http://{HOST}:{server.server_port}/"
            print(f"Serving {folder} at {where}; Ctrl-C ends it.", file=sys.stderr, flush=True)
            server.serve_forever()
        return 0


class LivePage:
    """The page of the newest study in ``folder``, made again where that has changed since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._of: object = None
        self._text = ""

    def text(self) -> str:
        """Return the page as it is now.

        Raises:
            JouleLabError: If there is none.
        """
        from joulelab.study.live_page import live_page

        with self._turn:
            study = newest_study(self._folder)
            now = _fingerprint(study)
            if now != self._of:
                self._text = live_page(study)
                self._of = now
            return self._text


def newest_study(folder: Path) -> Path:
    """Return ``folder`` if a study is in it, else the one of those within that has news last.

    Raises:
        ConfigError: If there is none.
    """
    if (folder / _HEADER).exists():
        return folder
    found = {path.parent: _changed_ns(path.parent) for path in folder.glob(f"*/{_HEADER}")}
    if not found:
        raise ConfigError(
            f"{folder} must be the results folder of a study that has begun, or hold some; it "
            f"{'has none' if folder.is_dir() else 'does not exist'}."
        )
    return max(found, key=lambda each: found[each])


def _changed_ns(folder: Path) -> int:
    return max(path.stat().st_mtime_ns for name in (_HEADER, STATE) for path in folder.glob(name))


def _fingerprint(folder: Path) -> object:
    """Return what changes with every measurement, and with who has the study."""
    found: list[object] = [holder_of(folder)]
    for path in sorted((*folder.glob("*.json"), *folder.glob("measurements/*"))):
        status = path.stat()
        found.append((path, status.st_size, status.st_mtime_ns))
    return found


def _handler(page: Callable[[], str], interval_s: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A name that others have given this machine is how their pages would reach in.
            name = self.headers.get("Host", "").partition(":")[0]
            if self.path != "/" or name not in (HOST, "localhost"):
                self.send_error(404)
                return
            try:
                self._send(200, "html", page())
            except (JouleLabError, OSError) as error:
                self._send(500, "plain", one_line(error))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Refresh", f"{interval_s:g}")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Keep the terminal quiet."""

    return Handler
